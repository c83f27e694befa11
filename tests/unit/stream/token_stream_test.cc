// The channel between the engine and a reader.
#include "stream/token_stream.h"

#include <gtest/gtest.h>

#include <thread>

namespace fathom {
namespace {

StreamEvent token(int32_t id) {
  StreamEvent event;
  event.token_ids = {id};
  return event;
}

StreamEvent terminal() {
  StreamEvent event;
  event.finished = true;
  event.finish_reason = FinishReason::kLength;
  return event;
}

TEST(TokenStream, DeliversInOrderAndOneTerminalEvent) {
  TokenStream stream("a", 10);
  EXPECT_EQ(stream.request_id(), "a");
  EXPECT_TRUE(stream.push(token(1)));
  EXPECT_TRUE(stream.push(token(2)));
  EXPECT_FALSE(stream.finished());
  EXPECT_TRUE(stream.push(terminal()));
  EXPECT_TRUE(stream.finished());
  EXPECT_FALSE(stream.push(terminal()));
  EXPECT_FALSE(stream.push(token(3)));
  EXPECT_EQ(stream.next()->token_ids, (std::vector<int32_t>{1}));
  EXPECT_EQ(stream.next()->token_ids, (std::vector<int32_t>{2}));
  EXPECT_TRUE(stream.next()->finished);
  EXPECT_FALSE(stream.next());  // at once, without a timeout
}

TEST(TokenStream, IsBoundedButAlwaysTakesTheTerminalEvent) {
  TokenStream stream("a", 2);
  EXPECT_TRUE(stream.push(token(1)));
  EXPECT_TRUE(stream.push(token(2)));
  EXPECT_FALSE(stream.push(token(3)));
  EXPECT_TRUE(stream.push(terminal()));
  stream.next();
  stream.next();
  EXPECT_TRUE(stream.next()->finished);
}

TEST(TokenStream, TimesOut) {
  TokenStream stream("a", 2);
  EXPECT_FALSE(stream.next(0));
  EXPECT_FALSE(stream.next(0.001));
  stream.push(token(1));
  EXPECT_TRUE(stream.next(1e300));  // too long for a clock: as if without a limit
}

TEST(TokenStream, TellsTheListenerOfEveryEvent) {
  int calls = 0;
  TokenStream stream("a", 1, [&calls] { ++calls; });
  stream.push(token(1));
  stream.push(token(2));  // refused
  stream.push(terminal());
  EXPECT_EQ(calls, 2);
}

TEST(TokenStream, CarriesEventsBetweenThreads) {
  constexpr int kEvents = 20000;
  TokenStream stream("a", kEvents);
  std::thread writer([&stream] {
    for (int i = 0; i < kEvents; ++i) stream.push(token(i));
    stream.push(terminal());
  });
  int expected = 0;
  while (std::optional<StreamEvent> event = stream.next()) {
    if (event->finished) break;
    ASSERT_EQ(event->token_ids[0], expected++);
  }
  EXPECT_EQ(expected, kEvents);
  writer.join();
}

TEST(TokenStream, NamesReasons) {
  EXPECT_STREQ(finish_reason_name(FinishReason::kStop), "stop");
  EXPECT_STREQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_STREQ(finish_reason_name(FinishReason::kCancelled), "cancelled");
  EXPECT_STREQ(finish_reason_name(FinishReason::kError), "error");
}

}  // namespace
}  // namespace fathom
