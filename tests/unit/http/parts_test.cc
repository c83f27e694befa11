// Targets, metrics and the log's lines.
#include <gtest/gtest.h>

#include "http/errors.h"
#include "http/metrics.h"
#include "http/response_head.h"
#include "http/target.h"

namespace fathom {
namespace {

TEST(Target, Decodes) {
  const auto target = parse_target("/a%20b/c+d?x=1&y=a+b%26c&z&=v&&x=2#frag");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/a b/c+d");
  EXPECT_EQ(target->query.at("x"), "1");  // the first one
  EXPECT_EQ(target->query.at("y"), "a b&c");
  EXPECT_EQ(target->query.at("z"), "");
  EXPECT_EQ(target->query.at(""), "v");
  EXPECT_EQ(parse_target("http://host:1/p?q=1")->path, "/p");
  EXPECT_EQ(parse_target("https://host")->path, "/");
  EXPECT_EQ(parse_target("*")->path, "*");
  for (const char* bad :
       {"", "a", "ftp://x/", "/%", "/%2", "/%2g", "/%00", "/%0a", "/a?b=%1", "/\x7f", "/a?\x01"}) {
    EXPECT_FALSE(parse_target(bad)) << bad;
  }
}

TEST(ResponseHead, CannotBeSplit) {
  HttpResponse response;
  response.headers.emplace_back("X-Warning", "a\r\nSet-Cookie: b");
  ResponseFraming framing;
  framing.content_length = 0;
  const std::string head = response_head(response, framing);
  EXPECT_EQ(head.find("\r\nSet-Cookie"), std::string::npos);
  EXPECT_EQ(head.find("\r\n\r\n"), head.size() - 4);
}

TEST(ResponseHead, StreamsOfEventsAreNeitherKeptNorHeldBack) {
  HttpResponse response;
  response.content_type = "text/event-stream; charset=utf-8";
  const std::string head = response_head(response, ResponseFraming());
  EXPECT_NE(head.find("\r\nCache-Control: no-cache\r\n"), std::string::npos) << head;
  EXPECT_NE(head.find("\r\nX-Accel-Buffering: no\r\n"), std::string::npos) << head;
  response.content_type = "application/json";
  EXPECT_EQ(response_head(response, ResponseFraming()).find("Cache-Control"), std::string::npos);
}

TEST(Errors, EventsHaveTheFormOfTheEndpoint) {
  const HttpError error{503, "Over.", "shutting_down", ""};
  EXPECT_EQ(error_event(error, "/v1/chat/completions", "r").substr(0, 16), "data: {\"error\":{");
  EXPECT_EQ(error_event(error, "/v1/messages", "r").substr(0, 20), "event: error\ndata: {");
  EXPECT_EQ(error_event(error, "/v1/responses", "r"),
            "event: error\ndata: {\"type\":\"error\",\"code\":\"shutting_down\","
            "\"message\":\"Over.\",\"param\":null}\n\n");
}

TEST(Metrics, CountWhatRequestsReport) {
  Metrics metrics("tiny", "1.2.3");
  const std::string endpoint = "/v1/chat/completions";
  metrics.request_started(endpoint);
  metrics.first_token(endpoint, 0.015);
  metrics.inter_token(endpoint, 0.003);
  metrics.inter_token(endpoint, 0.004);
  StreamEvent end;
  end.finished = true;
  end.finish_reason = FinishReason::kLength;
  end.usage.prompt_tokens = 10;
  end.usage.completion_tokens = 3;
  end.usage.queue_seconds = 0.25;
  end.usage.prefill_seconds = 0.25;
  end.usage.decode_seconds = 0.5;
  metrics.request_finished(endpoint, end);
  const std::string text = metrics.text();
  const std::string labels = "{gen_ai_operation_name=\"chat\",gen_ai_request_model=\"tiny\"} ";
  for (const std::string& line :
       {"gen_ai_server_time_to_first_token_seconds_sum" + labels + "0.015",
        "fathom:inter_token_latency_seconds_count" + labels + "2",
        "gen_ai_server_time_per_output_token_seconds_sum" + labels + "0.25",
        "gen_ai_server_request_duration_seconds_sum" + labels + "1",
        "fathom:request_queue_time_seconds_sum" + labels + "0.25",
        "fathom:request_prompt_tokens_sum" + labels + "10",
        "fathom:request_generation_tokens_sum" + labels + "3",
        std::string("fathom:requests_finished_total{finished_reason=\"length\"} 1"),
        std::string("fathom:requests_finished_total{finished_reason=\"stop\"} 0")}) {
    EXPECT_NE(text.find(line + "\n"), std::string::npos) << line;
  }
}

TEST(Metrics, AskTheEngineWhileThereIsOne) {
  Metrics metrics("tiny", "1.2.3");
  EXPECT_EQ(metrics.text().find("fathom:num_requests_running"), std::string::npos);
  EngineMetrics engine;
  engine.running = 3;
  engine.kv_pages_total = 8;
  engine.kv_pages_used = 2;
  metrics.set_engine([engine] { return engine; });
  const std::string text = metrics.text();
  EXPECT_NE(text.find("fathom:num_requests_running 3\n"), std::string::npos);
  EXPECT_NE(text.find("fathom:kv_cache_usage_ratio 0.25\n"), std::string::npos);
  metrics.set_engine({});
  EXPECT_EQ(metrics.text().find("fathom:num_requests_running"), std::string::npos);
}

}  // namespace
}  // namespace fathom
