// Damaged and hostile tokenizer.json files: each is refused with a message that names the place.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "text/tokenizer.h"

namespace fathom {
namespace {

using nlohmann::json;

// A small byte-level tokenizer that uses every part.
json good() {
  json vocab;
  for (const char* token : {"a", "b", "c", "ab", "abc", "Ġ", "Ġa", "<s>"})
    vocab[token] = vocab.size();
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", "\\s?\\p{L}+"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", false}};
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", 7},
             {"content", "<s>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single",
             {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
            {"pair", json::array()},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {7}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab c", "Ġ a"}}}}};
}

Result<std::unique_ptr<Tokenizer>> load(const std::string& text) {
  return Tokenizer::from_json(text, "");
}

struct Damage {
  const char* name;
  const char* message;  // what the message must contain
  std::function<void(json&)> apply;
};

json token(const json& like, const char* content, int id) {
  json copy = like;
  copy["content"] = content;
  copy["id"] = id;
  return copy;
}

const Damage kDamages[] = {
    {"no model", "model is missing", [](json& j) { j.erase("model"); }},
    {"model is a list", "model is missing or is not an object",
     [](json& j) { j["model"] = json::array(); }},
    {"Unigram", "\"Unigram\"", [](json& j) { j["model"]["type"] = "Unigram"; }},
    {"type is a number", "tokenizer.json", [](json& j) { j["model"]["type"] = 5; }},
    {"no vocab", "model.vocab", [](json& j) { j["model"].erase("vocab"); }},
    {"vocab is a list", "model.vocab",
     [](json& j) {
       j["model"]["vocab"] = {{"a", 1.0}};
     }},
    {"no merges", "model.merges", [](json& j) { j["model"].erase("merges"); }},
    {"merges is a string", "model.merges", [](json& j) { j["model"]["merges"] = "a b"; }},
    {"id is a string", "\"b\"", [](json& j) { j["model"]["vocab"]["b"] = "1"; }},
    {"id is negative", "\"b\"", [](json& j) { j["model"]["vocab"]["b"] = -1; }},
    {"id is a fraction", "\"b\"", [](json& j) { j["model"]["vocab"]["b"] = 1.5; }},
    {"id is a list", "\"b\"", [](json& j) { j["model"]["vocab"]["b"] = {1}; }},
    {"id is huge", "4000000000", [](json& j) { j["model"]["vocab"]["b"] = 4000000000u; }},
    {"id is 2^63", "9223372036854775808", [](json& j) { j["model"]["vocab"]["b"] = 1ull << 63; }},
    {"id twice", "two tokens", [](json& j) { j["model"]["vocab"]["b"] = 0; }},
    {"merge of unknown tokens", "model.merges[3]",
     [](json& j) { j["model"]["merges"].push_back("x y"); }},
    {"merge to an unknown token", "\"ba\"", [](json& j) { j["model"]["merges"].push_back("b a"); }},
    {"merge without a space", "model.merges[0]", [](json& j) { j["model"]["merges"][0] = "ab"; }},
    {"merge with two spaces", "model.merges[0]",
     [](json& j) { j["model"]["merges"][0] = "a b c"; }},
    {"merge of three", "model.merges[0]",
     [](json& j) {
       j["model"]["merges"][0] = {"a", "b", "c"};
     }},
    {"merge of one", "model.merges[0]", [](json& j) { j["model"]["merges"][0] = {"a"}; }},
    {"merge is a number", "model.merges[0]", [](json& j) { j["model"]["merges"][0] = 1; }},
    {"merge of numbers", "model.merges[0]",
     [](json& j) {
       j["model"]["merges"][0] = {1, 2};
     }},
    {"dropout", "model.dropout", [](json& j) { j["model"]["dropout"] = 0.1; }},
    {"unk is a number", "model.unk_token", [](json& j) { j["model"]["unk_token"] = 3; }},
    {"ignore_merges is a string", "model.ignore_merges",
     [](json& j) { j["model"]["ignore_merges"] = "no"; }},
    {"added tokens is an object", "added_tokens",
     [](json& j) {
       j["added_tokens"] = json::object({{"a", 1}});
     }},
    {"added token is a string", "added_tokens[0]", [](json& j) { j["added_tokens"][0] = "<s>"; }},
    {"added id missing", "added_tokens[0].id", [](json& j) { j["added_tokens"][0].erase("id"); }},
    {"added id huge", "added_tokens[0].id",
     [](json& j) { j["added_tokens"][0]["id"] = 1ull << 40; }},
    {"added id far away", "far beyond",
     [](json& j) { j["added_tokens"].push_back(token(j["added_tokens"][0], "<x>", 2000000000)); }},
    {"added id contradicts", "model.vocab gives it 7",
     [](json& j) { j["added_tokens"][0]["id"] = 9; }},
    {"added id taken", "which model.vocab gives to \"a\"",
     [](json& j) { j["added_tokens"].push_back(token(j["added_tokens"][0], "<x>", 0)); }},
    {"added token twice", "added_tokens[1] repeats",
     [](json& j) { j["added_tokens"].push_back(j["added_tokens"][0]); }},
    {"added content endless", "added_tokens[0].content",
     [](json& j) { j["added_tokens"][0]["content"] = std::string(1 << 20, 'x'); }},
    {"added flag missing", "added_tokens[0].lstrip",
     [](json& j) { j["added_tokens"][0].erase("lstrip"); }},
    {"unknown normalizer", "normalizer.normalizers[0].type \"Nmt\"",
     [](json& j) { j["normalizer"]["normalizers"][0]["type"] = "Nmt"; }},
    {"normalizer multiplies", "normalizer.normalizers[0].content",
     [](json& j) {
       j["normalizer"]["normalizers"][0] = {{"type", "Replace"},
                                            {"pattern", {{"String", "a"}}},
                                            {"content", std::string(1000, 'a')}};
     }},
    {"unknown pre-tokenizer", "\"BertPreTokenizer\"",
     [](json& j) {
       j["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
     }},
    {"pre-tokenizer without type", "pre_tokenizer.type",
     [](json& j) { j["pre_tokenizer"].erase("type"); }},
    {"pre-tokenizer is a list", "pre_tokenizer",
     [](json& j) { j["pre_tokenizer"] = json::array(); }},
    {"unknown behavior", "\"Shuffled\"",
     [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Shuffled"; }},
    {"pattern missing", "pretokenizers[0].pattern",
     [](json& j) { j["pre_tokenizer"]["pretokenizers"][0].erase("pattern"); }},
    {"pattern of another kind", "pretokenizers[0].pattern",
     [](json& j) {
       j["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Glob", "*"}};
     }},
    {"regex is broken", "never closed",
     [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; }},
    {"regex with a backreference", "\\1",
     [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a)\\1"; }},
    {"regex nested", "nested",
     [](json& j) {
       j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = std::string(50000, '(');
     }},
    {"regex blows up", "instructions",
     [](json& j) {
       j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "((((a{999}){999}){999}){999})";
     }},
    {"regex endless", "65536",
     [](json& j) {
       j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = std::string(100000, 'a');
     }},
    {"no decoder", "decoder", [](json& j) { j.erase("decoder"); }},
    {"unknown decoder", "\"WordPiece\"", [](json& j) { j["decoder"]["type"] = "WordPiece"; }},
    {"unknown post-processor", "\"RobertaProcessing\"",
     [](json& j) { j["post_processor"]["type"] = "RobertaProcessing"; }},
    {"template without text", "sequence A",
     [](json& j) { j["post_processor"]["single"].erase(1); }},
    {"template names nothing", "\"<x>\"",
     [](json& j) { j["post_processor"]["single"][0]["SpecialToken"]["id"] = "<x>"; }},
    {"template id out of range", "no token",
     [](json& j) { j["post_processor"]["special_tokens"]["<s>"]["ids"] = {1000000}; }},
};

TEST(HostileTokenizer, TheUndamagedOneLoads) {
  const auto tokenizer = load(good().dump());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ(*(*tokenizer)->encode("abc a", {true, true}), (std::vector<int32_t>{7, 4, 6}));
}

TEST(HostileTokenizer, DamageIsNamed) {
  ASSERT_GE(std::size(kDamages), 50u);
  for (const Damage& damage : kDamages) {
    json file = good();
    damage.apply(file);
    const auto tokenizer = load(file.dump());
    ASSERT_FALSE(tokenizer) << damage.name;
    EXPECT_NE(tokenizer.error().message().find(damage.message), std::string::npos)
        << damage.name << ": " << tokenizer.error().message();
    EXPECT_LT(tokenizer.error().message().size(), 1000u) << damage.name;
  }
}

TEST(HostileTokenizer, NotJsonAtAll) {
  const std::string text = good().dump();
  const std::pair<std::string, std::string> bad[] = {
      {"", "no valid JSON"},
      {"[]", "not a JSON object"},
      {"5", "not a JSON object"},
      {text + "x", "no valid JSON at byte"},
      {"{\"model\":{\"vocab\":{\"\xFF\":0}}}", "no valid JSON at byte"},
      {"{\"model\":{\"vocab\":{\"\\ud800\":0}}}", "no valid JSON at byte"},
      {"{\"model\":{\"vocab\":{\"a\":0},\"vocab\":{\"a\":0}}}", "appears twice"},
      {"{\"model\":1,\"model\":1}", "appears twice"},
      {"{\"model\":{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]},\"decoder\":{\"type\":\"Fuse\"}}",
       "\"a\""},
      {std::string(1000000, '['), "nested"},
      {"{\"normalizer\":" + std::string(1000000, '['), "nested"},
      {"{\"model\":{\"vocab\":" + std::string(1000000, '['), "no valid JSON"},
      {"{\"model\":{\"vocab\":{\"a\":" + std::string(1000000, '['), "\"a\""},
      {"{\"model\":{\"merges\":" + std::string(1000000, '['), "model.merges[0]"},
  };
  for (const auto& [json_text, message] : bad) {
    const auto tokenizer = load(json_text);
    ASSERT_FALSE(tokenizer) << json_text.substr(0, 80);
    EXPECT_NE(tokenizer.error().message().find(message), std::string::npos)
        << json_text.substr(0, 80) << ": " << tokenizer.error().message();
  }
  for (size_t size = 0; size < text.size(); size += 7)
    EXPECT_FALSE(load(text.substr(0, size))) << size;
}

TEST(HostileTokenizer, NestedComponents) {
  json nested = {{"type", "NFC"}};
  for (int i = 0; i < 20; ++i) nested = {{"type", "Sequence"}, {"normalizers", {nested}}};
  json file = good();
  file["normalizer"] = nested;
  EXPECT_FALSE(load(file.dump()));
}

TEST(HostileTokenizer, CatastrophicPatternsEndWithAnError) {
  for (const char* pattern : {"(?:a|a)*c", "(?:a+)+c", "(?:a?){900}c", "(?:a*)*(?:a*)*(?:a*)*c",
                              "(?<=a+b)c|(?:a|aa)+c"}) {
    json file = good();
    file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern;
    const auto tokenizer = load(file.dump());
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    const auto ids = (*tokenizer)->encode(std::string(20000, 'a'));
    ASSERT_FALSE(ids) << pattern;
    EXPECT_NE(ids.error().message().find("too many steps"), std::string::npos);
  }
}

TEST(HostileTokenizer, NormalizersMustNotMultiplyForever) {
  json steps = json::array();
  for (int i = 0; i < 10; ++i) {
    steps.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(60, 'a')}});
  }
  json file = good();
  file["normalizer"]["normalizers"] = steps;
  const auto tokenizer = load(file.dump());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  const auto ids = (*tokenizer)->encode(std::string(1000, 'a'));
  ASSERT_FALSE(ids);
  EXPECT_NE(ids.error().message().find("64 times"), std::string::npos);
}

TEST(HostileTokenizer, UnknownTokenThatIsMissing) {
  json file = good();
  file["model"]["unk_token"] = "<unk>";
  const auto tokenizer = load(file.dump());
  ASSERT_TRUE(tokenizer);
  EXPECT_TRUE((*tokenizer)->encode("abc"));
  const auto ids = (*tokenizer)->encode("xyz");
  ASSERT_FALSE(ids);
  EXPECT_NE(ids.error().message().find("\"<unk>\""), std::string::npos);
}

TEST(HostileTokenizer, DamagedConfig) {
  const std::string text = good().dump();
  EXPECT_FALSE(Tokenizer::from_json(text, "{"));
  EXPECT_FALSE(Tokenizer::from_json(text, "[]"));
  EXPECT_FALSE(Tokenizer::from_json(text, std::string(1000000, '[')));
  const auto odd = Tokenizer::from_json(text, R"({"bos_token": 5, "eos_token": {"content": []},
      "pad_token": "no such token", "add_bos_token": "yes"})");
  ASSERT_TRUE(odd) << odd.error().message();
  EXPECT_FALSE((*odd)->bos_id() || (*odd)->eos_id() || (*odd)->pad_id());
}

}  // namespace
}  // namespace fathom
