// Reads the pre-tokenizers of tokenizer.json and runs them.
#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/code_set.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace fathom {
namespace {

constexpr int kMaxNesting = 16;
// The pattern of GPT-2, which ByteLevel splits by with use_regex.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Rust's \w+|[^\w\s]+
Result<Regex> words_or_signs() {
  std::vector<RegexNodePtr> kids;
  kids.push_back(regex_repeat(regex_set(rust_word_set()), 1, kUnbounded));
  kids.push_back(regex_repeat(regex_set(~(rust_word_set() | white_space_set())), 1, kUnbounded));
  return Regex::compile(*regex_alt(std::move(kids)));
}

}  // namespace

struct PreTokenizer::State {
  struct Piece {
    size_t begin;  // code points
    size_t end;
  };
  State(std::string t, bool start) : text(std::move(t)), codes(text), at_start(start) {
    if (codes.count() > 0) pieces.push_back({0, codes.count()});
  }
  std::string_view piece_text(const Piece& piece) const {
    return std::string_view(text).substr(codes.offsets[piece.begin],
                                         codes.offsets[piece.end] - codes.offsets[piece.begin]);
  }

  std::string text;
  CodePoints codes;
  std::vector<Piece> pieces;
  bool at_start;
};

Result<PreTokenizer> PreTokenizer::read(const nlohmann::json& component) {
  PreTokenizer result;
  if (!component.is_null()) FATHOM_TRY(result.add(component, "pre_tokenizer", 0));
  if (!result.steps_.empty() && result.steps_.back().kind == Kind::kByteLetters) {
    result.ends_in_bytes_ = true;
    result.steps_.pop_back();
  }
  return result;
}

Status PreTokenizer::add(const nlohmann::json& component, const std::string& where, int depth) {
  FATHOM_ASSIGN_OR_STATUS(const std::string type, json_type(component, where));
  if (type == "Sequence") {
    if (depth > kMaxNesting) return {Code::kCorrupt, where + " is nested too deeply"};
    FATHOM_ASSIGN_OR_STATUS(const nlohmann::json* list,
                            json_array(component, "pretokenizers", where));
    for (size_t i = 0; i < list->size(); ++i) {
      FATHOM_RETURN_IF_ERROR(
          add((*list)[i], where + ".pretokenizers[" + std::to_string(i) + "]", depth + 1));
    }
    return {};
  }
  if (type == "Split") return add_split(component, where);
  if (type == "ByteLevel") return add_byte_level(component, where);
  if (type == "Metaspace") return add_metaspace(component, where);
  if (type == "Digits") {
    FATHOM_ASSIGN_OR_STATUS(const bool individual,
                            json_bool(component, "individual_digits", where));
    return add_set(rust_numeric_set(), individual ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (type == "Punctuation") {
    Behavior behavior = Behavior::kIsolated;
    if (component.contains("behavior")) {
      FATHOM_ASSIGN_OR_STATUS(behavior, read_behavior(component, where));
    }
    return add_set(rust_punctuation_set(), behavior);
  }
  if (type == "WhitespaceSplit") return add_set(white_space_set(), Behavior::kRemoved);
  if (type == "Whitespace") {
    FATHOM_ASSIGN_OR_STATUS(Regex regex, words_or_signs());
    add_regex(std::move(regex), Behavior::kRemoved, true);
    return {};
  }
  return {Code::kUnsupported, where + ".type " + in_quotes(type) + " is not supported"};
}

Status PreTokenizer::add_set(const CodeSet& set, Behavior behavior) {
  FATHOM_ASSIGN_OR_STATUS(Regex regex, Regex::compile(*regex_set(set)));
  add_regex(std::move(regex), behavior, false);
  return {};
}

Status PreTokenizer::add_split(const nlohmann::json& component, const std::string& where) {
  FATHOM_ASSIGN_OR_STATUS(Regex pattern, read_pattern(component, where));
  FATHOM_ASSIGN_OR_STATUS(const Behavior behavior, read_behavior(component, where));
  FATHOM_ASSIGN_OR_STATUS(const bool invert, json_bool(component, "invert", where));
  add_regex(std::move(pattern), behavior, invert);
  return {};
}

void PreTokenizer::add_regex(Regex pattern, Behavior behavior, bool invert) {
  steps_.push_back(
      {Kind::kSplit, std::make_unique<Split>(Split{std::move(pattern), behavior, invert})});
}

Status PreTokenizer::add_byte_level(const nlohmann::json& component, const std::string& where) {
  FATHOM_ASSIGN_OR_STATUS(const bool prefix, json_bool(component, "add_prefix_space", where));
  FATHOM_ASSIGN_OR_STATUS(const bool split, json_bool_or(component, "use_regex", true, where));
  if (prefix) steps_.push_back({Kind::kPrefixSpace});
  if (split) {
    FATHOM_ASSIGN_OR_STATUS(Regex regex, Regex::compile(kGpt2Pattern));
    add_regex(std::move(regex), Behavior::kIsolated, false);
  }
  steps_.push_back({Kind::kByteLetters});
  return {};
}

Status PreTokenizer::add_metaspace(const nlohmann::json& component, const std::string& where) {
  Step step{Kind::kMetaspace};
  FATHOM_ASSIGN_OR_STATUS(step.replacement, json_string(component, "replacement", where));
  const bool one =
      !step.replacement.empty() && decode_utf8(step.replacement).size == step.replacement.size();
  if (!one) return {Code::kCorrupt, where + ".replacement is not one character"};
  FATHOM_ASSIGN_OR_STATUS(const bool prefix,
                          json_bool_or(component, "add_prefix_space", true, where));
  FATHOM_ASSIGN_OR_STATUS(const bool split, json_bool_or(component, "split", true, where));
  if (component.contains("prepend_scheme")) {
    FATHOM_ASSIGN_OR_STATUS(const std::string scheme,
                            json_string(component, "prepend_scheme", where));
    if (scheme != "first" && scheme != "never" && scheme != "always") {
      return {Code::kCorrupt, where + ".prepend_scheme " + in_quotes(scheme) + " is not known"};
    }
    step.scheme = scheme == "first"   ? Scheme::kFirst
                  : scheme == "never" ? Scheme::kNever
                                      : Scheme::kAlways;
  }
  if (!prefix && step.scheme != Scheme::kNever) {
    return {Code::kCorrupt,
            where + ".add_prefix_space is false although prepend_scheme is not \"never\""};
  }
  FATHOM_ASSIGN_OR_STATUS(Regex regex, Regex::compile(*regex_literal(step.replacement)));
  steps_.push_back(std::move(step));
  if (split) add_regex(std::move(regex), Behavior::kMergedWithNext, false);
  return {};
}

Result<PreTokenizer::Behavior> PreTokenizer::read_behavior(const nlohmann::json& component,
                                                           const std::string& where) {
  FATHOM_ASSIGN(const std::string name, json_string(component, "behavior", where));
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return error(Code::kUnsupported, where + ".behavior " + in_quotes(name) + " is not known");
}

Status PreTokenizer::split(std::string text, bool at_start, Scratch& scratch, Words& out) const {
  State state(std::move(text), at_start);
  for (const Step& step : steps_) {
    if (step.kind == Kind::kSplit) {
      FATHOM_RETURN_IF_ERROR(apply(*step.split, state, scratch));
    } else if (step.kind == Kind::kPrefixSpace) {
      rewrite(state, [](std::string_view piece, bool, std::string& to) {
        if (piece.front() != ' ') to += ' ';
        to += piece;
      });
    } else if (step.kind == Kind::kByteLetters) {
      rewrite(state,
              [](std::string_view piece, bool, std::string& to) { to += to_byte_letters(piece); });
    } else {
      rewrite(state, [&](std::string_view piece, bool first, std::string& to) {
        const bool wanted =
            step.scheme == Scheme::kAlways || (step.scheme == Scheme::kFirst && first);
        const bool there =
            piece.front() == ' ' || piece.substr(0, step.replacement.size()) == step.replacement;
        if (wanted && !there) to += step.replacement;
        for (const char c : piece) c == ' ' ? to += step.replacement : to += c;
      });
    }
  }
  out.words.clear();
  out.text = std::move(state.text);
  state.text.clear();
  for (const State::Piece& piece : state.pieces) {
    const size_t begin = state.codes.offsets[piece.begin];
    out.words.push_back(
        std::string_view(out.text).substr(begin, state.codes.offsets[piece.end] - begin));
  }
  return {};
}

// Puts each piece through `edit(piece, is the very start of the input, append here)`.
template <typename Edit>
void PreTokenizer::rewrite(State& state, Edit edit) {
  std::string text;
  std::vector<size_t> ends;
  for (const State::Piece& piece : state.pieces) {
    edit(state.piece_text(piece), state.at_start && piece.begin == 0, text);
    ends.push_back(text.size());
  }
  State next(std::move(text), state.at_start);
  next.pieces.clear();
  size_t at = 0;
  for (const size_t end : ends) {
    const size_t begin = at;
    while (next.codes.offsets[at] < end) ++at;
    if (at > begin) next.pieces.push_back({begin, at});
  }
  state = std::move(next);
}

Status PreTokenizer::apply(const Split& step, State& state, Scratch& scratch) {
  scratch.classes.resize(state.codes.count());
  step.pattern.classify(state.codes.codes.data(), state.codes.count(), scratch.classes.data());
  std::vector<State::Piece> pieces;
  pieces.reserve(state.pieces.size() * 2);
  for (const State::Piece& piece : state.pieces) {
    scratch.matches.clear();
    FATHOM_RETURN_IF_ERROR(step.pattern.find_all(scratch.classes.data(), piece.begin, piece.end,
                                                 scratch.regex, scratch.matches));
    auto& parts = scratch.parts;
    parts.clear();
    size_t at = piece.begin;
    for (const Regex::Match& match : scratch.matches) {
      if (at < match.begin) parts.push_back({{at, match.begin}, step.invert});
      parts.push_back({match, !step.invert});
      at = match.end;
    }
    if (at < piece.end) parts.push_back({{at, piece.end}, step.invert});
    merge_parts(step.behavior, parts);
    for (const auto& [part, matched] : parts) {
      const bool removed = matched && step.behavior == Behavior::kRemoved;
      if (!removed && part.begin < part.end) pieces.push_back({part.begin, part.end});
    }
  }
  state.pieces = std::move(pieces);
  return {};
}

// Joins neighbours as the behavior asks, in place.
void PreTokenizer::merge_parts(Behavior behavior,
                               std::vector<std::pair<Regex::Match, bool>>& parts) {
  if (behavior == Behavior::kIsolated || behavior == Behavior::kRemoved) return;
  const bool backward = behavior == Behavior::kMergedWithNext;
  if (backward) std::reverse(parts.begin(), parts.end());
  size_t kept = 0;
  bool previous = false;
  for (const auto& [part, matched] : parts) {
    const bool join =
        behavior == Behavior::kContiguous ? matched == previous : matched && !previous;
    previous = matched;
    if (join && kept > 0) {
      Regex::Match& last = parts[kept - 1].first;
      (backward ? last.begin : last.end) = backward ? part.begin : part.end;
    } else {
      parts[kept++] = {part, matched};
    }
  }
  parts.resize(kept);
  if (backward) std::reverse(parts.begin(), parts.end());
}

}  // namespace fathom
