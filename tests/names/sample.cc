// Classes of every shape that a reader of type information may get wrong. Built with and without
// optimisation across files, folding of identical functions, and a C++ runtime of its own.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#define OUT_OF_LINE __attribute__((noinline, noclone))

namespace {
volatile int g_sink;
OUT_OF_LINE void use(int value) {
  g_sink = value;
}
}  // namespace

namespace shapes {

// An interface whose own vtable no code needs, and one whose functions have bodies.
struct Interface {
  virtual ~Interface() = default;
  virtual int compute(int) = 0;
  virtual int prepare(int x) {
    use(x);
    return x + 1;
  }
};
struct Allocator {
  explicit Allocator(int size) : size_(size) {}
  virtual ~Allocator() { use(size_); }
  virtual void* alloc(size_t size) {
    use(static_cast<int>(size));
    return nullptr;
  }
  virtual void free(void*) { use(2); }
  int size_;
};
struct Arena : Allocator {
  using Allocator::Allocator;
  void* alloc(size_t size) override {
    use(static_cast<int>(size) + 7);
    return this;
  }
  virtual int shrink() {
    use(3);
    return 3;
  }
};

template <typename T>
struct Gemm : Interface {
  int compute(int x) override {
    use(x + static_cast<int>(sizeof(T)));
    return x;
  }
  int prepare(int x) override {
    std::vector<T> pack(static_cast<size_t>(x));
    use(static_cast<int>(pack.size()));
    return x;
  }
  T weight{};
};
template struct Gemm<float>;
template struct Gemm<double>;

// Inherited, not overridden; identical bodies in classes that have nothing to do with each other.
struct Relu : Interface {
  int compute(int x) override {
    use(x);
    return 1;
  }
};
struct Sigmoid : Interface {
  int compute(int x) override {
    use(x);
    return 1;
  }
};
struct Unrelated {
  virtual ~Unrelated() = default;
  virtual int first(int x) {
    use(x);
    return 1;
  }
  virtual int second(int x) {
    use(x);
    return 1;
  }
};

// Empty bases, several bases, thunks, other return types.
struct Empty {};
struct WithEmpty : Empty, Allocator {
  WithEmpty() : Allocator(1) {}
  void free(void*) override { use(11); }
};
struct Fresh : Empty {  // the base is no part of its vtable
  virtual ~Fresh() = default;
  virtual int fresh() {
    use(12);
    return 12;
  }
};
struct Both : Interface, Allocator {
  Both() : Allocator(5) {}
  int compute(int x) override {
    use(x + 21);
    return 21;
  }
  void* alloc(size_t size) override {
    use(static_cast<int>(size) + 22);
    return &size_;
  }
  virtual void own() { use(23); }
};
struct Maker {
  virtual ~Maker() = default;
  virtual Allocator* make() {
    use(31);
    return new Allocator(3);
  }
};
struct BothMaker : Fresh, Maker {
  Both* make() override {
    use(32);
    return new Both;
  }
};

// Virtual bases, with and without members, in a diamond.
struct Top {
  virtual ~Top() = default;
  virtual int top() {
    use(41);
    return 41;
  }
  int value = 1;
};
struct Left : virtual Top {
  int top() override {
    use(42);
    return 42;
  }
  virtual int left() {
    use(43);
    return 43;
  }
};
struct Right : virtual Top {
  virtual int right() {
    use(44);
    return 44;
  }
};
struct Bottom : Left, Right {
  int top() override {
    use(45);
    return 45;
  }
  int right() override {
    use(46);
    return 46;
  }
  virtual int bottom() {
    use(47);
    return 47;
  }
};

// Local classes, lambdas.
std::unique_ptr<Interface> local(int x) {
  struct Local : Interface {
    int compute(int y) override {
      use(y + 51);
      return 51;
    }
  };
  (void)x;
  return std::make_unique<Local>();
}
std::function<int(int)> lambda(int x) {
  auto state = std::make_shared<std::string>(static_cast<size_t>(x), 'x');
  return [state](int y) {
    use(y + static_cast<int>(state->size()));
    return y;
  };
}

}  // namespace shapes

namespace {
struct Hidden : shapes::Interface {
  int compute(int x) override {
    use(x + 61);
    return 61;
  }
  virtual void hidden() { use(62); }
};
struct Same {
  virtual ~Same() = default;
  virtual int same() {
    use(63);
    return 63;
  }
};
}  // namespace

// Right behind vtables: constant tables that look like more of them.
namespace {
OUT_OF_LINE int row_a(int x) {
  use(x + 71);
  return 71;
}
OUT_OF_LINE int row_b(int x) {
  use(x + 72);
  return 72;
}
OUT_OF_LINE int row_c(int x) {
  use(x + 73);
  return 73;
}
}  // namespace
extern "C" int (*const names_table[])(int) = {row_a, row_b, row_c};
extern "C" const struct {
  long number;
  int (*function)(int);
  int (*other)(int);
} names_records[] = {{0, row_a, row_b}, {0, row_c, row_a}};

extern "C" __attribute__((visibility("default"))) int names_run(int x) {
  std::vector<std::unique_ptr<shapes::Interface>> all;
  all.push_back(std::make_unique<shapes::Gemm<float>>());
  all.push_back(std::make_unique<shapes::Gemm<double>>());
  all.push_back(std::make_unique<shapes::Relu>());
  all.push_back(std::make_unique<shapes::Sigmoid>());
  all.push_back(std::make_unique<shapes::Both>());
  all.push_back(std::make_unique<Hidden>());
  all.push_back(shapes::local(x));
  int sum = 0;
  for (const auto& one : all) sum += one->compute(x) + one->prepare(x);
  std::vector<std::unique_ptr<shapes::Allocator>> allocators;
  allocators.push_back(std::make_unique<shapes::Allocator>(1));
  allocators.push_back(std::make_unique<shapes::Arena>(2));
  allocators.push_back(std::make_unique<shapes::WithEmpty>());
  for (const auto& one : allocators) one->free(one->alloc(static_cast<size_t>(x)));
  std::unique_ptr<shapes::Maker> maker = std::make_unique<shapes::BothMaker>();
  delete maker->make();
  maker = std::make_unique<shapes::Maker>();
  delete maker->make();
  std::unique_ptr<shapes::Top> top = std::make_unique<shapes::Bottom>();
  sum += top->top() + names_table[x % 3](x) + names_records[x % 2].function(x);
  top = std::make_unique<shapes::Right>();
  std::unique_ptr<shapes::Unrelated> unrelated = std::make_unique<shapes::Unrelated>();
  std::unique_ptr<Same> same = std::make_unique<Same>();
  std::unique_ptr<shapes::Fresh> fresh = std::make_unique<shapes::Fresh>();
  sum += unrelated->first(x) + unrelated->second(x) + same->same() + fresh->fresh();
  try {
    if (x > 1000) throw std::make_shared<int>(x);
  } catch (const std::shared_ptr<int>& value) {
    sum += *value;
  }
  return sum + top->top() + shapes::lambda(x)(x);
}
