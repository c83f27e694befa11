// A SAX handler for tokenizer.json: 128,000 tokens are read without a tree of as many nodes.
#include "text/tokenizer_json.h"

#include <optional>

#include "text/utf8.h"

namespace fathom {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 64;

// Returns false from a callback to stop the parser; `problem` then says why.
class Handler {
 public:
  Handler(TokenizerJson& out) : out_(out) {}

  std::string problem;

  bool null() { return value(json(nullptr)); }
  bool boolean(bool v) { return value(json(v)); }
  bool number_integer(json::number_integer_t v) { return value(json(v)); }
  bool number_unsigned(json::number_unsigned_t v) {
    if (zone_ != Zone::kVocab) return value(json(v));
    out_.vocab.emplace_back(std::move(token_), v);
    return true;
  }
  bool number_float(json::number_float_t v, const std::string&) { return value(json(v)); }
  bool binary(json::binary_t&) { return false; }

  bool string(std::string& v) {
    if (zone_ == Zone::kMerges) return legacy_merge(v);
    if (zone_ == Zone::kMerge) {
      pair_.push_back(std::move(v));
      return pair_.size() <= 2 || fail(merge_place() + " has more than two parts");
    }
    return value(json(std::move(v)));
  }

  bool key(std::string& v) {
    if (zone_ == Zone::kVocab) {
      token_ = std::move(v);
      return true;
    }
    if (zone_ == Zone::kSkipped) return true;
    json& object = *stack_.back();
    if (object.contains(v)) return fail("the key " + in_quotes(v) + " appears twice");
    if (stack_.size() == 2 && top_key_ == "model" && (v == "vocab" || v == "merges")) {
      const bool twice = v == "vocab" ? out_.has_vocab : out_.has_merges;
      if (twice) return fail("the key " + in_quotes("model." + v) + " appears twice");
    }
    if (stack_.size() == 1) top_key_ = v;
    key_ = std::move(v);
    return true;
  }

  bool start_object(size_t) {
    if (in_model("vocab")) {
      zone_ = Zone::kVocab;
      return out_.has_vocab = true;
    }
    return open(json::object());
  }
  bool end_object() { return close(); }

  bool start_array(size_t) {
    if (zone_ == Zone::kMerges) {
      zone_ = Zone::kMerge;
      pair_.clear();
      return true;
    }
    if (in_model("merges")) {
      zone_ = Zone::kMerges;
      return out_.has_merges = true;
    }
    if (in_model("vocab")) {  // of another kind of model: its type will be refused by name
      zone_ = Zone::kSkipped;
      skipped_ = 1;
      return true;
    }
    return open(json::array());
  }

  bool end_array() {
    if (zone_ == Zone::kMerge) {
      if (pair_.size() != 2) return fail(merge_place() + " does not have two parts");
      out_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      zone_ = Zone::kMerges;
      return true;
    }
    if (zone_ == Zone::kMerges) {
      zone_ = Zone::kTree;
      return true;
    }
    return close();
  }

  bool parse_error(size_t position, const std::string& last_token, const json::exception&) {
    return fail("it is no valid JSON at byte " + std::to_string(position) + ", near " +
                in_quotes(last_token));
  }

 private:
  enum class Zone { kTree, kVocab, kMerges, kMerge, kSkipped };

  bool fail(const std::string& what) {
    if (problem.empty()) problem = what;
    return false;
  }

  std::string merge_place() const {
    return "model.merges[" + std::to_string(out_.merges.size()) + "]";
  }

  bool in_model(const char* key) const {
    return zone_ == Zone::kTree && stack_.size() == 2 && top_key_ == "model" &&
           stack_.back()->is_object() && key_ == key;
  }

  // "a b"; a comment line of the old format is not a merge.
  bool legacy_merge(const std::string& v) {
    if (v.rfind("#version", 0) == 0) return true;
    const size_t space = v.find(' ');
    if (space == v.npos || v.find(' ', space + 1) != v.npos) {
      return fail(merge_place() + " is " + in_quotes(v) +
                  ", which is not two tokens with a space between");
    }
    out_.merges.emplace_back(v.substr(0, space), v.substr(space + 1));
    return true;
  }

  bool value(json v) {
    if (zone_ == Zone::kSkipped) return true;
    if (zone_ == Zone::kVocab) {
      return fail("model.vocab gives token " + in_quotes(token_) +
                  " an id that is no unsigned integer");
    }
    if (zone_ != Zone::kTree) return fail(merge_place() + " is not made of strings");
    insert(std::move(v));
    return true;
  }

  bool open(json container) {
    if (zone_ == Zone::kSkipped) {
      ++skipped_;
      return true;
    }
    if (zone_ != Zone::kTree) return value(std::move(container));
    if (stack_.size() >= kMaxDepth) return fail("it is nested more than 64 levels deep");
    stack_.push_back(insert(std::move(container)));
    return true;
  }

  bool close() {
    if (zone_ == Zone::kSkipped) {
      if (--skipped_ == 0) zone_ = Zone::kTree;
    } else if (zone_ == Zone::kVocab) {
      zone_ = Zone::kTree;
    } else {
      stack_.pop_back();
    }
    return true;
  }

  json* insert(json v) {
    if (stack_.empty()) {
      out_.rest = std::move(v);
      return &out_.rest;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    json& slot = parent[key_];
    slot = std::move(v);
    return &slot;
  }

  TokenizerJson& out_;
  Zone zone_ = Zone::kTree;
  size_t skipped_ = 0;
  std::vector<json*> stack_;  // open containers of the tree
  std::string top_key_;
  std::string key_;
  std::string token_;
  std::vector<std::string> pair_;
};

tl::unexpected<Status> wrong(const std::string& where, const char* key, const char* expected) {
  return error(Code::kCorrupt, where + "." + key + " is missing or is not " + expected);
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 60;
  if (text.size() <= kShown) return "\"" + std::string(text) + "\"";
  text = text.substr(0, kShown);
  text.remove_suffix(unfinished_utf8_tail(text));
  return "\"" + std::string(text) + "...\"";
}

Result<TokenizerJson> read_tokenizer_json(std::string_view text) {
  TokenizerJson out;
  Handler handler(out);
  if (!json::sax_parse(text, &handler)) {
    return error(Code::kCorrupt, "tokenizer.json is damaged: " + handler.problem);
  }
  if (!out.rest.is_object()) {
    return error(Code::kCorrupt, "tokenizer.json is damaged: it is not a JSON object");
  }
  return out;
}

Result<bool> json_bool(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_boolean()) return wrong(where, key, "true or false");
  return found->get<bool>();
}

Result<bool> json_bool_or(const json& object, const char* key, bool fallback,
                          const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  return json_bool(object, key, where);
}

Result<std::string> json_string(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return wrong(where, key, "a string");
  return found->get<std::string>();
}

Result<const json*> json_array(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return wrong(where, key, "an array");
  return &*found;
}

Result<std::string> json_type(const json& component, const std::string& where) {
  if (!component.is_object()) {
    return error(Code::kCorrupt, where + " is not an object");
  }
  return json_string(component, "type", where);
}

}  // namespace fathom
