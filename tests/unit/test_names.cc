#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "catch.h"
#include "collector/log/clock_map.h"
#include "collector/rules/rule_book.h"
#include "collector/summary/site_title.h"
#include "collector/text/function_names.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/text/title_text.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

TEST_CASE("function_names: short names", "[collector]") {
  CHECK(short_function_name("malloc") == "malloc");
  CHECK(short_function_name("main") == "main");
  CHECK(short_function_name("onnxruntime::BFCArena::Extend(unsigned long)") ==
        "onnxruntime::BFCArena::Extend");
  CHECK(short_function_name("a::onnxruntime::cuda::Conv<float>::UpdateState(x*, bool) const") ==
        "cuda::Conv<float>::UpdateState");
  CHECK(short_function_name("void std::vector<int, std::allocator<int> >::_M_realloc_insert<int "
                            "const&>(__gnu_cxx::__normal_iterator<int*, std::vector<int> >)") ==
        "std::vector<int>::_M_realloc_insert<int const&>");
  CHECK(short_function_name("void load<std::vector<double, std::allocator<double> > >(long)") ==
        "load<vector<double>>");
  CHECK(short_function_name("f<outer::Box<outer::Pair<outer::Box<int>, long, short> > >()") ==
        "f<Box<…>>");
  CHECK(short_function_name("f<a_type_with_a_very_long_name, another_one>()") == "f<…>");
  CHECK(short_function_name("operator new(unsigned long)") == "operator new");
  CHECK(short_function_name("A::operator()(int) const") == "A::operator()");
  CHECK(short_function_name("std::ostream& operator<< <char>(std::ostream&, char)") ==
        "operator<< <char>");
  CHECK(short_function_name("a::(anonymous namespace)::work(int)") == "a::work");
  CHECK(short_function_name(
            "run(int)::{lambda(int, std::vector<int> const&)#1}::operator()(int) const") ==
        "run(int)::{lambda}::operator()");
  CHECK(short_function_name("") == "");
  CHECK(short_function_name("f(") == "f");
  CHECK(short_function_name("<<<>") == "<<<>");
}

TEST_CASE("function_names: short names of Rust", "[collector]") {
  CHECK(short_function_name("store::spell::{closure#0}") == "store::spell::{closure#0}");
  CHECK(short_function_name("store::Store<T>::grow") == "store::Store<T>::grow");
  CHECK(short_function_name("a::b::store::grow::<u8>") == "b::store::grow::<u8>");
  CHECK(short_function_name("store::grow::<alloc::string::String>") == "store::grow::<String>");
  CHECK(short_function_name("a::b::<impl c::Tr for alloc::vec::Vec<T>>::go") ==
        "a::b::<impl Tr for Vec<T>>::go");
  CHECK(short_function_name("<std::collections::hash::map::HashMap<u64,[u64; 15]> as "
                            "store::Fill>::fill::{{closure}}") ==
        "<HashMap<u64,[u64; 15]> as Fill>::fill::{{closure}}");
  CHECK(short_function_name("<&mut dyn a::b::C as a::Tr<fn(u8) -> u64>>::f") ==
        "<&mut dyn C as Tr<fn(u8) -> u64>>::f");
  CHECK(short_function_name("<[alloc::string::String] as a::Tr>::f") == "<… as Tr>::f");
  CHECK(short_function_name("<(u8, &str) as a::Tr>::f") == "<(u8, &str) as Tr>::f");
  CHECK(short_function_name("<<a::S>::f::Local as core::fmt::Display>::fmt") ==
        "<Local as Display>::fmt");
  CHECK(short_function_name("<[u8]>::to_vec") == "<[u8]>::to_vec");
  CHECK(short_function_name("<a as ") == "<a as ");
  CHECK(short_function_name("a::operator_table::build::<alloc::string::String>") ==
        "a::operator_table::build::<String>");
}

TEST_CASE("names_apart: instantiations and overloads by the shortest that tells them apart",
          "[collector]") {
  using Texts = std::vector<std::string>;
  CHECK(names_apart({"void* load<std::vector<float, std::allocator<float> > >(unsigned long)",
                     "void* load<std::vector<double, std::allocator<double> > >(unsigned long)"}) ==
        Texts{"load<vector<float>>", "load<vector<double>>"});
  CHECK(names_apart({"Net::load(int)", "Net::load(long)", "Net::load(int) const"}) ==
        Texts{"Net::load(int)", "Net::load(long)", "Net::load(int) const"});
  CHECK(names_apart({"main", "load(int)", "main", "load(long)"}) ==
        Texts{"main", "load(int)", "main", "load(long)"});
  CHECK(names_apart({"a::b::c::d::f(int)", "x::b::c::d::f(int)"}) ==
        Texts{"a::b::c::d::f", "x::b::c::d::f"});
  CHECK(names_apart({"f(a::X, some_type_that_is_the_same)",
                     "f(b::X, some_type_that_is_the_same)"}) == Texts{"f(a::X, …)", "f(b::X, …)"});
  const std::string text =
      "std::__cxx11::basic_string<char, std::char_traits<char>, "
      "std::allocator<char> >";
  CHECK(names_apart({"void f<std::map<" + text + ", A<B<C<int> > >, std::less<int> > >()",
                     "void f<std::map<" + text + ", A<B<C<long> > >, std::less<int> > >()"}) ==
        Texts{"f<map<string, A<B<C<int>>>>>", "f<map<string, A<B<C<long>>>>>"});
  CHECK(names_apart(
            {"run(int)::{lambda(some_type_of_a_long_name const&)#1}::operator()(int) const",
             "run(int)::{lambda(some_type_of_a_long_name const&)#2}::operator()(int) const"}) ==
        Texts{"run(int)::{lambda(…)#1}::operator()", "run(int)::{lambda(…)#2}::operator()"});
  CHECK(names_apart({"f(int)", "f(int) [clone .part.0]"}) ==
        Texts{"f(int)", "f(int) [clone .part.0]"});
  CHECK(names_apart({"f<<<(", "f<<<)", "f(", ""}) == Texts{"f<<<(", "f<<<)", "f", ""});
}

TEST_CASE("names_apart: texts of different functions differ, whatever the names are",
          "[collector]") {
  std::string deep = "f<";
  for (int i = 0; i < 200; ++i) deep += "A<int, ";
  const std::vector<std::string> names = {deep + "int",
                                          deep + "long",
                                          "operator<<(A, B)",
                                          "operator<<(A, C)",
                                          "A::operator()(int)",
                                          "A::operator()(long)",
                                          "x<(a>b)>::y",
                                          "x<(a<b)>::y",
                                          "(anonymous namespace)::f(int)",
                                          "f(int)",
                                          "a::(anonymous namespace)::f(int)",
                                          "b::(anonymous namespace)::f(int)",
                                          "<A as T>::f",
                                          "<B as T>::f"};
  const std::vector<std::string_view> functions(names.begin(), names.end());
  const std::vector<std::string> texts = names_apart(functions);
  CHECK(std::set<std::string>(texts.begin(), texts.end()).size() == names.size());
}

TEST_CASE("site_title: rows that look alike get more of names, folders and libraries",
          "[collector]") {
  const auto frame = [](const char* function, const char* file, int line, const char* module) {
    Frame made;
    made.function = function;
    made.file = file;
    made.line = line;
    made.module = module;
    return made;
  };
  const Frame one = frame("init()", "/src/a/util.cc", 7, "x.so");
  const Frame two = frame("init()", "/src/b/util.cc", 7, "x.so");
  const Frame other_library = frame("init()", "/src/b/util.cc", 7, "y.so");
  const Frame other_line = frame("init()", "/src/b/util.cc", 8, "x.so");
  CHECK(titles_apart({&one, &two, &other_line}) ==
        std::vector<std::string>{"init a/util.cc:7", "init b/util.cc:7", "init util.cc:8"});
  CHECK(titles_apart({&two, &other_library}) ==
        std::vector<std::string>{"init util.cc:7 [x.so]", "init util.cc:7 [y.so]"});
  CHECK(titles_apart({&one, &one}) == std::vector<std::string>{"init util.cc:7", "init util.cc:7"});
  std::vector<Holder> rows(3);
  const Frame outer = frame("main", "/src/main.cc", 40, "x");
  const Frame leaf = frame("grab(int)", "/src/grab.cc", 3, "x");
  rows[0].parts = {{leaf}, {frame("load(int)", "/src/l.cc", 5, "x")}, {outer}};
  rows[1].parts = {{leaf}, {frame("load(long)", "/src/l.cc", 5, "x")}, {outer}};
  rows[2].parts = {{outer}};
  for (Holder& row : rows) row.title = site_title(row.parts);
  tell_apart(rows);
  CHECK(rows[0].title == "grab grab.cc:3 ← load(int) l.cc:5 ← main main.cc:40");
  CHECK(rows[1].title == "grab grab.cc:3 ← load(long) l.cc:5 ← main main.cc:40");
  CHECK(rows[0].telling_part == 1);
  CHECK(rows[1].telling_part == 1);
  CHECK(rows[2].telling_part == 0);
}

TEST_CASE("function_names: demangling leaves other names alone", "[collector]") {
  CHECK(demangle("_Z3foov") == "foo()");
  CHECK(demangle("_Znotmangled?") == "_Znotmangled?");
  CHECK(demangle("PyObject_Call") == "PyObject_Call");
}

TEST_CASE("function_names: plumbing is told from sites", "[collector]") {
  CHECK(is_plumbing("libc.so.6", "malloc"));
  CHECK(is_plumbing("app", "operator new(unsigned long)"));
  CHECK(is_plumbing("app", "std::allocator<int>::allocate(unsigned long)"));
  CHECK(is_plumbing("app", "void std::vector<int>::push_back(int)"));
  CHECK(is_plumbing("libcudart.so.13", ""));
  CHECK(is_plumbing("libpython3.11.so", "_PyMem_RawMalloc"));
  CHECK_FALSE(is_plumbing("libc.so.6", "fopen"));
  CHECK_FALSE(is_plumbing("app", "main"));
  CHECK_FALSE(is_plumbing("app", ""));
  CHECK_FALSE(is_plumbing("app", "mallocate"));
}

TEST_CASE("function_names: rules add frameworks' plumbing", "[collector]") {
  const NameRules& rules = builtin_name_rules();
  CHECK(rules.is_plumbing("app", "libcudart_static_5382377d5c772c9d197c0cda9fd9742ee6ad893c"));
  CHECK(rules.is_plumbing("libc10_cuda.so",
                          "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::"
                          "alloc_block(AllocParams&, bool)"));
  CHECK(rules.is_plumbing("libonnxruntime.so.1", "onnxruntime::BFCArena::Reserve"));
  CHECK(rules.is_plumbing("libonnxruntime.so.1", "onnxruntime::OpKernelContext::[virtual 16]"));
  CHECK(rules.is_plumbing("xla_cuda_plugin.so", "tsl::BFCAllocator::Extend(unsigned long)"));
  CHECK_FALSE(rules.is_plumbing("libonnxruntime.so.1", "onnxruntime::Gemm<float>::PrePack"));
  CHECK_FALSE(rules.is_plumbing("libonnxruntime.so.1", ""));
  CHECK_FALSE(rules.is_plumbing("app", "main"));
  CHECK(rules.is_landmark("libtorch_cuda.so",
                          "torch::autograd::generated::ConvolutionBackward0::apply(x&&)"));
  CHECK_FALSE(rules.is_landmark("libtorch_cuda.so", "at::native::conv2d"));
}

TEST_CASE("function_names: Rust's own library is plumbing, what a program adds to it is not",
          "[collector]") {
  const NameRules& rules = builtin_name_rules();
  for (const char* name :
       {"__rust_alloc", "__rdl_alloc", "__rustc::__rust_alloc", "alloc::alloc::alloc",
        "alloc::raw_vec::RawVec<T,A>::grow_one", "hashbrown::raw::RawTable<T,A>::reserve_rehash",
        "<alloc::vec::Vec<T,A> as core::iter::traits::collect::Extend<T>>::extend",
        "<std::collections::hash::map::HashMap<store::Key, u64> as core::clone::Clone>::clone",
        "<[store::Row]>::to_vec",
        "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
        "<T as alloc::string::ToString>::to_string", "<u64>::pow",
        "<&[u8] as core::convert::Into<alloc::vec::Vec<u8>>>::into",
        "<store::main::{closure#0} as core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}",
        "core::ops::function::FnOnce::call_once"}) {
    INFO(name);
    CHECK(rules.is_plumbing("store", name));
  }
  for (const char* name :
       {"store::main", "<alloc::vec::Vec<u8> as store::Fill>::fill", "<[u8] as store::Fill>::fill",
        "<store::Row as core::clone::Clone>::clone", "<&store::Row as core::fmt::Debug>::fmt",
        "<<store::Row>::f::Local as core::fmt::Display>::fmt", "<dyn store::Fill>::fill",
        "alloc::Pool::take", "core::Engine::run(int)", "<alloc::vec::Vec<"}) {
    INFO(name);
    CHECK_FALSE(rules.is_plumbing("store", name));
  }
  CHECK(is_start_code("std::sys::backtrace::__rust_begin_short_backtrace::<fn(), ()>"));
  CHECK(is_start_code("std::rt::lang_start_internal"));
  CHECK(rules.is_landmark("store", "std::panicking::default_hook"));
  CHECK_FALSE(rules.is_landmark("store", "<[u8]>::to_vec"));
}

TEST_CASE("title_text: titles are cut in the middle", "[collector]") {
  CHECK(fit_title("a ← b ← c", 9) == "a ← b ← c");
  CHECK(fit_title("first_function ← second ← last.py:12", 31) == "first_function ← … ← last.py:12");
  const std::string one = fit_title("a_function_with_a_long_name", 11);
  CHECK(one == "a_fun…_name");
  for (size_t width = 0; width < 60; ++width) {
    for (const size_t telling : {0, 1, 2, 9}) {
      CHECK(display_width(fit_title("größer::größer ← mitte ← groß.py:7", width, telling)) <=
            width);
    }
  }
}

TEST_CASE("title_text: the frame that differs stays, and its line", "[collector]") {
  const std::string title =
      "std::vector<Tensor>::reserve tensor.cc:120 ← ResNetBlock::forward_with_checkpoint "
      "resnet.cc:312 ← handle_request handler.cc:12 ← main main.cc:40";
  for (size_t width = 20; width <= 80; ++width) {
    INFO(width);
    CHECK(fit_title(title, width, 0).find("tensor.cc:120") != std::string::npos);
    CHECK(fit_title(title, width, 1).find("resnet.cc:312") != std::string::npos);
    CHECK(fit_title(title, width, 2).find("handler.cc:12") != std::string::npos);
    CHECK(fit_title(title, width, 3).find("main main.cc:40") != std::string::npos);
  }
  CHECK(fit_title(title, 60, 1) == "… ← ResNetBlock::forward_with_checkpoint resnet.cc:312 ← …");
}

TEST_CASE("title_text: a sentence names the user's own code first", "[collector]") {
  CHECK(spoken_title("BFCArena::Reserve ← Gemm<float>::Compute ← run_model main.cc:41") ==
        "run_model main.cc:41 (Gemm<float>::Compute)");
  CHECK(spoken_title("meta::log_softmax ← cross_entropy functional.py:3479 ← logits q.py:62") ==
        "logits q.py:62 (cross_entropy)");
  CHECK(spoken_title("take_all a.cc:7 ← main a.cc:9") == "main a.cc:9 (take_all a.cc:7)");
  CHECK(spoken_title("main a.cc:9") == "main a.cc:9");
  CHECK(spoken_title("load_weights load.cc:88 ← main") == "load_weights load.cc:88");
  CHECK(spoken_title("take ← load load.cc:88 ← main") == "load load.cc:88 (take)");
  CHECK(spoken_title("7 ← main") == "main (7)");
  CHECK(spoken_title("take ← app+0x100") == "take ← app+0x100");
  CHECK(spoken_title("take ← app (3 frames)") == "take ← app (3 frames)");
  CHECK(spoken_title("redispatch ← <module> oom.py:5") == "oom.py:5 (redispatch)");
  CHECK(spoken_title("idle in PyTorch's pool") == "idle in PyTorch's pool");
}

TEST_CASE("function_names: what runs before main is no caller", "[collector]") {
  CHECK(is_start_code("__libc_start_call_main"));
  CHECK(is_start_code("_start"));
  CHECK_FALSE(is_start_code("main"));
  CHECK_FALSE(is_start_code(""));
}

TEST_CASE("sanitize: what could harm a terminal is escaped", "[collector]") {
  CHECK(escape("plain ← text") == "plain ← text");
  CHECK(escape("\x1b[31m\n") == "\\x1b[31m\\x0a");
  CHECK(escape("\xff\xc3") == "\\xff\\xc3");
  CHECK(escape("\xc0\x80") == "\\xc0\\x80");           // overlong
  CHECK(escape("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(escape("a\u202e"
               "b") == "a\\u{202e}b");
  CHECK(escape(std::string_view("\0x", 2)) == "\\x00x");
}

TEST_CASE("text_format: a number and its unit stay together", "[collector]") {
  const auto lines = [](std::string_view text, size_t width) {
    return fmt::format("{}", fmt::join(wrapped(text, width, 2, {}), "|"));
  };
  CHECK(lines("others 164 KiB of it", 10) == "others|  164 KiB|  of it");
  CHECK(lines("others 164 kittens", 10) == "others 164|  kittens");
  CHECK(lines("a line of 47.5 %, no less", 14) == "a line of|  47.5 %, no|  less");
}

TEST_CASE("text_format: figures", "[collector]") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(61204) == "61 204");
  CHECK(percent(1, 0) == "–");
  CHECK(percent(11, 10) == "–");
  CHECK(percent(851, 1000) == "85.1");
  CHECK(instant(9'810'000'000) == "+9.81 s");
  CHECK(duration(140'000'000) == "140 ms");
  CHECK(fit("A ← B ← C", 5) == "A ← …");
  CHECK(display_width(fit("A ← B ← C", 5)) == 5);
  CHECK(left("←", 3) == "←  ");
  CHECK(right("–", 3) == "  –");
}

TEST_CASE("text_format: columns are those of a terminal", "[collector]") {
  CHECK(display_width("重み") == 4);     // two columns a character
  CHECK(display_width("e\u0301") == 1);  // a combining accent takes none
  CHECK(fit("重み ← main", 6) == "重み …");
  CHECK(fit("重み", 3) == "重…");
  CHECK(left("重", 3) == "重 ");
  CHECK(fmt::format("{}", fmt::join(wrapped("重み重み", 3, 1, {}), "|")) == "重| み| 重| み");
}

TEST_CASE("text_format: one scale for all sizes, in three digits", "[collector]") {
  CHECK(size_text(std::nullopt) == "–");
  CHECK(size_text(0) == "0");
  CHECK(size_text(1) == "1 B");
  CHECK(size_text(999) == "999 B");
  CHECK(size_text(758 * 1024 + 512) == "758 KiB");  // a half goes to the even digit
  CHECK(size_text(759 * 1024 + 512) == "760 KiB");
  CHECK(size_text(1000) == "0.98 KiB");
  CHECK(size_text(40448) == "39.5 KiB");
  CHECK(size_text(76546) == "74.8 KiB");
  CHECK(size_text(64 * kMiB) == "64.0 MiB");
  CHECK(size_text(10 * kMiB - 1) == "10.0 MiB");
  CHECK(size_text(999 * kMiB + kMiB / 4) == "999 MiB");
  CHECK(size_text(1000 * kMiB) == "0.98 GiB");
  CHECK(size_text(81559 * kMiB) == "79.6 GiB");
  CHECK(size_text(UINT64_MAX) == "16777216 TiB");
  const TextStyle exact{.bytes = true};
  CHECK(size_text(3649044480, exact) == "3649044480");
  CHECK(size_text(0, exact) == "0");
  CHECK(signed_size(-1536) == "-1.50 KiB");
  CHECK(signed_size(0) == "0");
  CHECK(signed_size(INT64_MIN, exact) == "-9223372036854775808");
  CHECK(change_size(2 * kMiB, 5 * kMiB) == "+3.00 MiB");
  CHECK(change_size(5 * kMiB, 2 * kMiB, exact) == "-3145728");
  CHECK(change_size(5, 5) == "0");
}

TEST_CASE("clock_map: straight lines between the pairs", "[collector]") {
  ClockMap clock(false, 1000, 5000);
  clock.add_pair(3000, 6000);  // half a ns a tick
  clock.add_pair(4000, 8000);  // two
  clock.add_pair(3500, 1);     // damaged: time would run backwards
  clock.finish();
  CHECK(clock.to_ns(500) == 0);
  CHECK(clock.to_ns(1000) == 0);
  CHECK(clock.to_ns(2000) == 500);
  CHECK(clock.to_ns(3500) == 2000);
  CHECK(clock.to_ns(5000) == 4000);  // beyond: the slope of the whole
}
