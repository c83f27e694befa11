// Walks through masks, and a validator for the schemas of the tests.
#include "tests/unit/grammar/grammar_data.h"

#include <algorithm>
#include <cmath>

#include "tests/support/tokenizer_data.h"

namespace fathom::testing {

namespace {

Vocab make(const Tokenizer& tokenizer) {
  const int32_t eos = tokenizer.eos_id().value();
  auto compiler = GrammarCompiler::create(tokenizer, {eos});
  EXPECT_TRUE(compiler) << compiler.error().message();
  static std::vector<std::unique_ptr<GrammarCompiler>> kept;
  kept.push_back(std::move(*compiler));
  return {&tokenizer, kept.back().get(), eos};
}

bool closes(std::string_view token) {
  return !token.empty() && (token[0] == '"' || token[0] == '}' || token[0] == ']' ||
                            token[0] == '<' || token[0] == '\n' || token[0] == '`');
}

// Allowed tokens that go on with a closing tag of DSML, whose raw values nothing else can end.
std::vector<int32_t> going_on(const std::vector<int32_t>& ids, const std::string& text,
                              const Tokenizer& tokenizer) {
  std::vector<int32_t> fitting;
  if (text.find("<｜DSML｜") == std::string::npos) return fitting;
  const bool spaced = text.find("<｜DSML｜ ") != std::string::npos;
  const std::string_view tag = spaced ? "</｜DSML｜ parameter>" : "</｜DSML｜parameter>";
  size_t have = tag.size() - 1;
  while (!text.ends_with(tag.substr(0, have))) --have;
  if (have == 0) return fitting;
  for (const int32_t id : ids) {
    const std::string_view token = tokenizer.token_bytes(id);
    if (!token.empty() && tag.substr(have).starts_with(token)) fitting.push_back(id);
  }
  return fitting;
}

// Characters of a valid UTF-8 text.
size_t characters(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool has_type(const nlohmann::json& value, const std::string& type) {
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  }
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

std::string invalid_object(const nlohmann::json& value, const nlohmann::json& schema,
                           const nlohmann::json& root) {
  const auto properties = schema.value("properties", nlohmann::json::object());
  for (const auto& name : schema.value("required", nlohmann::json::array())) {
    if (!value.contains(name.get<std::string>())) return "misses " + name.dump();
  }
  for (const auto& [name, member] : value.items()) {
    if (properties.contains(name)) {
      const std::string why = invalid(member, properties[name], root);
      if (!why.empty()) return name + ": " + why;
    } else if (!schema.contains("additionalProperties")) {
      return "has " + name;
    } else {
      const std::string why = invalid(member, schema["additionalProperties"], root);
      if (!why.empty()) return name + ": " + why;
    }
  }
  return "";
}

std::string invalid_bounds(const nlohmann::json& value, const nlohmann::json& schema) {
  const auto outside = [&](const char* least, const char* most, double number) {
    return (schema.contains(least) && number < schema[least].get<double>()) ||
           (schema.contains(most) && number > schema[most].get<double>());
  };
  if (value.is_string() && outside("minLength", "maxLength",
                                   static_cast<double>(characters(value.get<std::string>())))) {
    return "has a wrong length";
  }
  if (value.is_array() && outside("minItems", "maxItems", static_cast<double>(value.size()))) {
    return "has a wrong number of items";
  }
  if (value.is_number() && outside("minimum", "maximum", value.get<double>())) {
    return "is out of range";
  }
  return "";
}

}  // namespace

const Vocab& nano() {
  static const auto tokenizer = Tokenizer::load(std::string(FATHOM_SOURCE_DIR) + "/models/nano");
  static const Vocab vocab = make(**tokenizer);
  return vocab;
}

const Vocab& deepseek_v3() {
  static const Vocab vocab = make(shared_tokenizer("deepseek-v3"));
  return vocab;
}

size_t Draw::below(size_t n) {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<size_t>((state_ >> 33) % n);
}

std::vector<int32_t> allowed_ids(TokenMask& mask, const Tokenizer& tokenizer) {
  std::vector<uint32_t> bits((static_cast<size_t>(tokenizer.vocab_size()) + 31) / 32, ~0u);
  if (mask.active()) mask.allowed(&bits);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (bits[static_cast<size_t>(id) / 32] >> (id % 32) & 1) ids.push_back(id);
  }
  return ids;
}

Walk walk(TokenMask& mask, const Vocab& vocab, uint64_t seed, int free, int most) {
  Draw draw(seed);
  Walk walk;
  for (int i = 0; i < most; ++i) {
    std::vector<int32_t> ids = allowed_ids(mask, *vocab.tokenizer);
    EXPECT_FALSE(ids.empty()) << "nothing is allowed after " << walk.text;
    if (ids.empty()) return walk;
    if (i >= free) {
      std::vector<int32_t> closing;
      for (const int32_t id : ids) {
        if (id == vocab.eos || closes(vocab.tokenizer->token_bytes(id))) closing.push_back(id);
      }
      if (std::find(ids.begin(), ids.end(), vocab.eos) != ids.end()) closing = {vocab.eos};
      std::vector<int32_t> tag = going_on(ids, walk.text, *vocab.tokenizer);
      if (!tag.empty()) {
        ids = std::move(tag);
      } else if (!closing.empty() && draw.below(4) > 0) {
        ids = std::move(closing);
      }
    }
    const int32_t id = ids[draw.below(ids.size())];
    const Status status = mask.accept(id);
    EXPECT_TRUE(status.ok()) << status.message() << " after " << walk.text;
    if (id == vocab.eos) {
      walk.ended = true;
      break;
    }
    walk.ids.push_back(id);
    walk.text += vocab.tokenizer->token_bytes(id);
  }
  walk.text = vocab.tokenizer->decode(walk.ids, /*skip_special_tokens=*/false);
  return walk;
}

GrammarSpec schema_spec(const std::string& schema, bool strict) {
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kJsonSchema;
  spec.text = schema;
  spec.strict = strict;
  return spec;
}

std::shared_ptr<const CompiledGrammar> compiled(const Vocab& vocab, const GrammarSpec& spec) {
  auto grammar = vocab.compiler->compile(spec);
  EXPECT_TRUE(grammar) << grammar.error().message();
  return grammar ? *grammar : nullptr;
}

std::shared_ptr<TokenMask> mask_of(const CompiledGrammar& grammar, ReasoningStart reasoning) {
  auto mask = grammar.make_mask(reasoning);
  EXPECT_TRUE(mask) << mask.error().message();
  return mask ? *mask : nullptr;
}

std::string invalid(const nlohmann::json& value, const nlohmann::json& schema,
                    const nlohmann::json& root) {
  if (schema.is_boolean()) return schema.get<bool>() ? "" : "is not allowed";
  if (schema.contains("$ref")) {
    const std::string pointer = schema["$ref"].get<std::string>().substr(1);
    return invalid(value, root.at(nlohmann::json::json_pointer(pointer)), root);
  }
  if (schema.contains("anyOf")) {
    for (const auto& option : schema["anyOf"]) {
      if (invalid(value, option, root).empty()) return "";
    }
    return value.dump() + " is none of the options";
  }
  if (schema.contains("enum")) {
    const auto& options = schema["enum"];
    const bool found = std::find(options.begin(), options.end(), value) != options.end();
    return found ? "" : value.dump() + " is not in the enum";
  }
  if (schema.contains("type") && !has_type(value, schema["type"])) {
    return value.dump() + " is no " + schema["type"].get<std::string>();
  }
  if (value.is_object()) return invalid_object(value, schema, root);
  if (value.is_array() && schema.contains("items")) {
    for (const auto& item : value) {
      const std::string why = invalid(item, schema["items"], root);
      if (!why.empty()) return why;
    }
  }
  return invalid_bounds(value, schema);
}

}  // namespace fathom::testing
