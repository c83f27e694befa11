// nano answers its probe through the engine as its model card says: 500 conversations, exact match.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace fathom {
namespace {

using nlohmann::json;

const std::filesystem::path kNano = std::filesystem::path(FATHOM_SOURCE_DIR) / "models" / "nano";

// Longer look-ups would take a sanitizer build half an hour.
#ifdef __SANITIZE_ADDRESS__
constexpr int kLongestClass = 512;
#else
constexpr int kLongestClass = 3500;
#endif

struct Score {
  int right = 0;
  int count = 0;
  double percent() const { return 100.0 * right / count; }
};

std::vector<json> read_probe() {
  std::vector<json> entries;
  std::ifstream file(kNano / "probe.jsonl");
  for (std::string line; std::getline(file, line);) {
    json entry = json::parse(line);
    if (entry.value("length_class", 0) <= kLongestClass) entries.push_back(std::move(entry));
  }
  return entries;
}

Request make_request(const json& entry) {
  Request request;
  ChatPrompt prompt;
  prompt.messages = entry.at("messages").dump();
  if (entry.contains("tools")) prompt.tools = entry.at("tools").dump();
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 256;
  request.sampling.skip_special_tokens = false;  // a tool call is written with special tokens
  return request;
}

// The whole text, or what went wrong instead: neither can be mistaken for a right answer.
std::string read_answer(TokenStream& stream) {
  std::string text;
  while (std::optional<StreamEvent> event = stream.next()) {
    text += event->text;
    if (event->finished && event->finish_reason != FinishReason::kStop) {
      text += fmt::format(" [{}: {}]", finish_reason_name(event->finish_reason),
                          event->error.message());
    }
  }
  return text;
}

// The groups whose scores are held: everything, the task, the length class of a long look-up.
std::vector<std::string> groups_of(const json& entry) {
  std::vector<std::string> groups = {"overall", entry.at("task").get<std::string>()};
  if (entry.contains("length_class")) {
    groups.push_back(fmt::format("lookup {}", entry.at("length_class").get<int>()));
  }
  return groups;
}

TEST(NanoProbe, AnswersExactly) {
  const std::vector<json> entries = read_probe();
  ASSERT_EQ(entries.size(), kLongestClass == 3500 ? 500U : 380U);
  EngineOptions options;
  options.model.threads = 2;
  options.kv_memory_bytes = 256 << 20;
  const auto engine = Engine::open(kNano.string(), options);
  ASSERT_TRUE(engine) << engine.error().message();
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (const json& entry : entries) {
    auto stream = (*engine)->submit(make_request(entry));
    ASSERT_TRUE(stream) << stream.error().message();
    streams.push_back(std::move(*stream));
  }
  std::map<std::string, Score> scores;
  std::string wrong;
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string answer = read_answer(*streams[i]);
    const auto want = entries[i].at("answer").get<std::string>();
    for (const std::string& group : groups_of(entries[i])) {
      scores[group].count += 1;
      scores[group].right += answer == want ? 1 : 0;
    }
    if (answer != want) wrong += fmt::format("  {}: \"{}\" for \"{}\"\n", i, answer, want);
  }
  for (const auto& [group, score] : scores) {
    RecordProperty(group, fmt::format("{}/{}", score.right, score.count));
  }
  SCOPED_TRACE("wrong answers:\n" + wrong);
  EXPECT_GE(scores["overall"].percent(), 98);
  EXPECT_GE(scores["repeat"].percent(), 99);
  for (const int length : {256, 512, 1024, 2048, 3500}) {
    if (length > kLongestClass) continue;
    const Score score = scores[fmt::format("lookup {}", length)];
    EXPECT_EQ(score.count, 40) << length;
    EXPECT_GE(score.percent(), 97) << "of look-ups of up to " << length << " tokens";
  }
}

}  // namespace
}  // namespace fathom
