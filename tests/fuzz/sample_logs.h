// Small logs that together hold every kind of record. They are the fuzzers' first inputs, and the
// inputs of the test that damages every byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupeak::testing {

struct SampleLog {
  std::string name;
  std::vector<uint8_t> bytes;
};

/// "whole", "hostile" (its names are attacks on terminals, HTML, XML and JSON), "bundle", "parts"
/// (another log is in it), "summary" (JSON).
std::vector<SampleLog> sample_logs();

/// A log in which every text contains `secret`.
SampleLog secret_log(const std::string& secret);

}  // namespace gpupeak::testing
