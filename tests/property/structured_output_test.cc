// Structured requests on nano: their answers hold the schema, and neither they nor the requests
// beside them change a bit.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/structured_output.h"

namespace fathom {
namespace {

using nlohmann::json;

const char* const kSchema =
    R"({"type":"object","properties":{"answer":{"enum":["yes","no","maybe"]},"sure":{"type":"boolean"},"n":{"type":"integer","minimum":0,"maximum":99}},"required":["answer","sure","n"]})";

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::string text;
  FinishReason reason = FinishReason::kError;

  bool operator==(const Answer&) const = default;
};

class StructuredNano : public testing::Test {
 protected:
  void SetUp() override {
    if (!structured_output_available()) {
      GTEST_SKIP() << "built without xgrammar: its source could not be fetched";
    }
    EngineOptions options;
    options.model.threads = 1;
    options.kv_memory_bytes = 32 << 20;
    auto engine = Engine::open(std::string(FATHOM_SOURCE_DIR) + "/models/nano", options);
    ASSERT_TRUE(engine) << engine.error().message();
    engine_ = std::move(*engine);
    structured_ = std::make_unique<StructuredOutput>(*engine_);
  }

  // Even numbers are structured, odd ones are not.
  Request request(int i) {
    Request request;
    request.prompt = TextPrompt{"<｜User｜>Is " + std::to_string(i) + " odd?<｜Assistant｜>"};
    request.sampling = engine_->default_sampling();
    request.sampling.temperature = i % 3 == 0 ? 0 : 1.5;
    request.sampling.seed = 100 + i;
    request.sampling.max_tokens = i % 2 == 0 ? 300 : 24;
    request.sampling.min_tokens = 3;
    request.sampling.logprobs = 0;
    if (i % 2 == 0) {
      GrammarSpec spec;
      spec.kind = GrammarSpec::Kind::kJsonSchema;
      spec.text = kSchema;
      const Status status = structured_->apply(spec, &request);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return request;
  }

  static Answer read(TokenStream& stream) {
    Answer answer;
    while (const auto event = stream.next()) {
      answer.ids.insert(answer.ids.end(), event->token_ids.begin(), event->token_ids.end());
      for (const TokenLogprobs& logprobs : event->logprobs) {
        answer.logprobs.push_back(logprobs.logprob);
      }
      answer.text += event->text;
      if (event->finished) answer.reason = event->finish_reason;
    }
    return answer;
  }

  Answer alone(int i) {
    auto stream = engine_->submit(request(i));
    EXPECT_TRUE(stream) << stream.error().message();
    return stream ? read(**stream) : Answer();
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<StructuredOutput> structured_;
};

TEST_F(StructuredNano, NeighboursKeepTheirBits) {
  constexpr int kRequests = 10;
  std::vector<Answer> expected;
  for (int i = 0; i < kRequests; ++i) expected.push_back(alone(i));
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < kRequests; ++i) streams.push_back(engine_->submit(request(i)).value());
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(read(*streams[i]), expected[i]) << i;
  for (int i = 0; i < kRequests; i += 2) {
    EXPECT_EQ(expected[i].reason, FinishReason::kStop) << expected[i].text;
    const json value = json::parse(expected[i].text, nullptr, false);
    ASSERT_TRUE(value.is_object()) << expected[i].text;
    EXPECT_EQ(value.size(), 3u);
    EXPECT_TRUE(value["sure"].is_boolean() && value["n"].is_number_integer()) << value;
  }
}

TEST_F(StructuredNano, ResponseFormats) {
  GrammarSpec spec;
  EXPECT_FALSE(parse_response_format(R"({"type":"text"})", &spec).value());
  EXPECT_TRUE(parse_response_format(R"({"type":"json_object"})", &spec).value());
  EXPECT_EQ(spec.kind, GrammarSpec::Kind::kJsonObject);
  const auto parsed = parse_response_format(
      R"({"type":"json_schema","json_schema":{"name":"x","schema":{"b":1,"a":2},"strict":true}})",
      &spec);
  ASSERT_TRUE(parsed.has_value() && *parsed);
  EXPECT_EQ(spec.text, R"({"b":1,"a":2})");  // in the order given
  EXPECT_TRUE(spec.strict);
  for (const char* text : {"", "7", "{}", R"({"type":"xml"})", R"({"type":"json_schema"})",
                           R"({"type":"json_schema","json_schema":{"schema":{},"strict":1}})"}) {
    EXPECT_FALSE(parse_response_format(text, &spec)) << text;
  }
}

}  // namespace
}  // namespace fathom
