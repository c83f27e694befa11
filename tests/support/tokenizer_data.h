// Loads the tokenizers and vectors under tests/data/tokenizers.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "text/tokenizer.h"

namespace fathom::testing {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// A file that is kept compressed and unpacked by the build.
inline std::string unpacked(const std::string& name) {
  return read_file(std::string(FATHOM_TEST_DATA_DIR) + "/tokenizers/" + name);
}
inline std::string plain_file(const std::string& name) {
  return read_file(std::string(FATHOM_SOURCE_DIR) + "/tests/data/tokenizers/" + name);
}

// "deepseek-v3", "deepseek-llm" or "deepseek-coder"; loaded once for each test binary.
inline const Tokenizer& shared_tokenizer(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Tokenizer>> loaded;
  auto& tokenizer = loaded[name];
  if (!tokenizer) {
    auto result = Tokenizer::from_json(unpacked(name + "/tokenizer.json"),
                                       plain_file(name + "/tokenizer_config.json"));
    if (!result) throw std::runtime_error(result.error().message());
    tokenizer = std::move(*result);
  }
  return *tokenizer;
}

inline nlohmann::json vectors(const std::string& name) {
  return nlohmann::json::parse(unpacked(name + "_vectors.json"));
}

}  // namespace fathom::testing
