// PreTokenizer: cuts a text into the words that BPE then encodes one by one.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "text/normalizer.h"
#include "text/regex.h"

namespace fathom {

// A list of steps, in the order of tokenizer.json; immutable. Each step is applied to every piece
// the steps before it have left, and sees nothing outside that piece.
class PreTokenizer {
 public:
  // Memory of one encoding thread, reused between texts.
  struct Scratch {
    Regex::Scratch regex;
    std::vector<uint8_t> classes;
    std::vector<Regex::Match> matches;
    std::vector<std::pair<Regex::Match, bool>> parts;  // of a piece; true: matched
  };
  struct Words {
    std::string text;
    std::vector<std::string_view> words;  // into text
  };

  // null gives one piece: the whole text.
  static Result<PreTokenizer> read(const nlohmann::json& component);

  // Whether the last step turns bytes into their letters. split() then leaves the bytes as they
  // are, and the model looks the letters up.
  bool ends_in_bytes() const { return ends_in_bytes_; }

  // `at_start`: the text begins where the input begins.
  Status split(std::string text, bool at_start, Scratch& scratch, Words& out) const;

 private:
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Split {
    Regex pattern;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;
  };
  enum class Scheme { kFirst, kNever, kAlways };
  enum class Kind { kSplit, kPrefixSpace, kByteLetters, kMetaspace };
  struct Step {
    Kind kind;
    std::unique_ptr<const Split> split;  // kSplit
    std::string replacement;             // kMetaspace
    Scheme scheme = Scheme::kAlways;     // kMetaspace
  };
  // A text as code points and the pieces it is cut into.
  struct State;

  Status add(const nlohmann::json& component, const std::string& where, int depth);
  Status add_split(const nlohmann::json& component, const std::string& where);
  Status add_byte_level(const nlohmann::json& component, const std::string& where);
  Status add_metaspace(const nlohmann::json& component, const std::string& where);
  Status add_set(const CodeSet& set, Behavior behavior);
  void add_regex(Regex pattern, Behavior behavior, bool invert);
  static Result<Behavior> read_behavior(const nlohmann::json& component, const std::string& where);

  static Status apply(const Split& step, State& state, Scratch& scratch);
  static void merge_parts(Behavior behavior, std::vector<std::pair<Regex::Match, bool>>& parts);
  template <typename Edit>
  static void rewrite(State& state, Edit edit);

  std::vector<Step> steps_;
  bool ends_in_bytes_ = false;
};

}  // namespace fathom
