// Rust's names, as rustc 1.95 writes them, and such as no compiler writes.
#include <fmt/format.h>

#include <iterator>
#include <regex>

#include "catch.h"
#include "collector/text/function_names.h"

using namespace gpupeak::collector;

namespace {

std::string base_62(size_t value) {
  constexpr std::string_view kDigits =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string text = "_";  // no digits: 0; else it is one more than the number
  if (value == 0) return text;
  for (--value;; value /= 62) {
    text.insert(text.begin(), kDigits[value % 62]);
    if (value < 62) return text;
  }
}

/// Each argument is a pair of the one before.
std::string doubling(size_t times) {
  std::string name = "INvC1a1f";
  size_t before = name.size();
  name += 'y';
  for (size_t i = 0; i < times; ++i) {
    const size_t here = name.size();
    name += fmt::format("TB{0}B{0}E", base_62(before));
    before = here;
  }
  return "_R" + name + 'E';
}

/// Back references: B, and a place of up to three digits.
size_t references(const std::string& name) {
  const std::regex reference("B[0-9a-zA-Z]{0,3}_");
  return static_cast<size_t>(std::distance(
      std::sregex_iterator(name.begin(), name.end(), reference), std::sregex_iterator()));
}

}  // namespace

TEST_CASE("rust_names: both manglings, without hashes", "[collector]") {
  CHECK(demangle("_ZN5store5spell17h0781cf4f4ef5fb42E") == "store::spell");
  CHECK(demangle("_RNvCsllFizMh6GpY_5store5spell") == "store::spell");
  CHECK(demangle("_ZN5store5spell28_$u7b$$u7b$closure$u7d$$u7d$17hdd19e4ec5f717ec8E") ==
        "store::spell::{{closure}}");
  CHECK(demangle("_RNCNvCsllFizMh6GpY_5store5spell0") == "store::spell::{closure#0}");
  CHECK(demangle("_ZN5store14Store$LT$T$GT$4grow17h08b28c1d892ddff8E") == "store::Store<T>::grow");
  CHECK(demangle("_ZN107_$LT$std..collections..hash..map..HashMap$LT$u64$C$$u5b$u64$u3b$$u20$15$"
                 "u5d$$GT$$u20$as$u20$store..Fill$GT$4fill17hfd636e1f6d1bbb61E") ==
        "<std::collections::hash::map::HashMap<u64,[u64; 15]> as store::Fill>::fill");
  CHECK(demangle("_RINvMNtNtCsjrHSEGnQ3l9_3std6thread7builderNtB3_7Builder15spawn_uncheckedNCNvCsll"
                 "FizMh6GpY_5store11in_a_thread0INtNtCslNYArtu3iFV_5alloc3vec3VechEEB1c_") ==
        "std::thread::builder::Builder::spawn_unchecked::<store::in_a_thread::{closure#0}, "
        "alloc::vec::Vec<u8>>");
  CHECK(demangle("_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeINtNtCslNYArtu3iFV_5alloc5boxed3BoxD"
                 "NtNtB4_3any3AnyNtNtB4_6marker4SendEL_EECsllFizMh6GpY_5store") ==
        "core::ptr::drop_in_place::<alloc::boxed::Box<dyn core::any::Any + core::marker::Send>>");
  CHECK(demangle("_ZN5store5spell17h0781cf4f4ef5fb42E.llvm.12345") == "store::spell");
}

TEST_CASE("rust_names: what is no Rust name is left to others", "[collector]") {
  CHECK(demangle("_ZN5store5spellEv") == "store::spell()");
  CHECK(demangle("_ZN1a17h0000000000000000E") == "a::h0000000000000000");  // no hash has one digit
  CHECK(demangle("_ReadRecords") == "_ReadRecords");
  CHECK(demangle("_R") == "_R");
  CHECK(demangle("") == "");
}

TEST_CASE("rust_names: no name takes long or much", "[collector]") {
  const std::string grown = demangle(doubling(100));
  CHECK(grown.starts_with("a::f::<u64, (u64, u64), ((u64, u64), (u64, u64)), "));
  CHECK(grown.ends_with("…"));
  CHECK(grown.size() < 10'000);
  CHECK(short_function_name(grown).size() < grown.size());
  CHECK(demangle(doubling(3)) ==
        "a::f::<u64, (u64, u64), ((u64, u64), (u64, u64)), (((u64, u64), (u64, u64)), ((u64, u64), "
        "(u64, u64)))>");
  for (const std::string& name :
       {std::string("_RNvB_1a"), "_RNvM" + std::string(16'000, 'S') + "u1a",
        "_R" + std::string(100'000, 'N'), std::string("_RNvYB_B_1a"),
        // 62^8 lifetimes in what is passed over
        std::string("_RNvMINtC1a1bFGzzzzzzzz_EuEC1c1d"),
        std::string("_RNvC1a1bINtC1a1bDGzzzzzzzz_EL_E"), "_RNvC1au9000" + std::string(9000, 'a')}) {
    CHECK(demangle(name) == name);
  }
}

TEST_CASE("rust_names: a real name may have more back references than one that never ends",
          "[collector]") {
  // A chain of iterators, as rustc 1.95 writes it: 45 references, 1,444 characters. A limit by
  // their number would refuse it, or let a name through that doubles 22 times.
  const std::string chain =
      "_RINvCs81re96vpUmQ_1d4showINtNtNtNtCsgEmfK2I1SDS_4core4iter8adapters3zip3ZipINtNtBs_5cha"
      "in5ChainINtNtBs_7inspect7InspectINtNtBs_10take_while9TakeWhileINtNtBs_10skip_while9SkipW"
      "hileINtNtBs_4fuse4FuseINtNtBs_3map3MapINtNtBs_7step_by6StepByINtNtBs_8peekable8PeekableI"
      "NtNtBs_6filter6FilterINtNtBs_4take4TakeIB3a_INtNtBs_4skip4SkipINtNtBs_9enumerate9Enumera"
      "teIB4d_IB3a_INtNtNtBw_5slice4iter4IteryENCNvB2_4main0ENCB6j_s_0EEENCB6j_s0_0EENCB6j_s1_0"
      "EEENCB6j_s2_0EENCB6j_s3_0ENCB6j_s4_0ENCB6j_s5_0EIB1w_IB4z_IB2S_IB3a_IB5e_IB4W_IB4d_IB3a_"
      "B5P_NCB6j_s6_0ENCB6j_s7_0EEENCB6j_s8_0EEENCB6j_s9_0EEIB5e_IB4d_IB4W_IB3a_B5P_NCB6j_sa_0E"
      "ENCB6j_sb_0EEEEB2_";
  const std::string grown = doubling(22);
  CHECK(references(chain) == 45);
  CHECK(references(grown) == 44);
  CHECK(demangle(chain).starts_with("d::show::<core::iter::adapters::zip::Zip<"));
  CHECK(demangle(chain).ends_with("d::main::{closure#13}>>>>"));
  CHECK(demangle(grown).ends_with("…"));
}

TEST_CASE("rust_names: letters that could bind lifetimes are right in hashes and words",
          "[collector]") {
  CHECK(demangle("_RNvCsllFGzMh6GpY_5store5spell") == "store::spell");
  CHECK(demangle("_RNvCsllFizMh6GpY_5store12to_RGBDGram_") == "store::to_RGBDGram_");
  CHECK(demangle("_RNvCsllFGzMh6GpY_5store6DGab_c") == "store::DGab_c");
  CHECK(demangle("_RINvC1a1fFG_RL0_hEuE") == "a::f::<for<'a> fn(&'a u8)>");
}
