// Connection: one client's connection and the exchange on it, from the first byte to the last.
//
// Everything here happens on the thread of the connection's loop.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "http/access_log.h"
#include "http/errors.h"
#include "http/gate.h"
#include "http/loop.h"
#include "http/metrics.h"
#include "http/request_parser.h"
#include "http/transport.h"

namespace fathom {

struct ConnectionLimits {
  uint32_t max_header_bytes = 64 << 10;
  size_t max_buffered_bytes = 4 << 20;               // of a stream whose reader is slow
  std::chrono::milliseconds idle_timeout{75'000};    // between requests
  std::chrono::milliseconds header_timeout{15'000};  // first byte to the end of the header
  std::chrono::milliseconds body_timeout{120'000};   // from there to the end of the body
  std::chrono::milliseconds write_timeout{30'000};   // without any progress
};

class Connection;

// What the connections of one loop share. Lives until the loop has finished.
struct ConnectionHost {
  std::shared_ptr<Loop> loop;
  Gate& gate;
  Metrics& metrics;
  AccessLog& log;
  const ConnectionLimits& limits;
  std::atomic<int>& open_connections;
  std::atomic<int>& running_work;  // exchanges of Route::is_work that are not over
  std::set<std::shared_ptr<Connection>> connections = {};  // loop thread only
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionHost& host, std::shared_ptr<Transport> transport, std::string client);
  ~Connection();

  void start();
  // Answers with 503 and closes: there are too many connections.
  void refuse();
  // Ends the connection now; an unfinished answer ends as `reason`.
  void close(Abort reason);
  // Ends unfinished work with an error that the client can read, then closes.
  void abort_work();
  const std::shared_ptr<Loop>& loop() const { return loop_; }

  // What the exchange with this number asks for; nothing happens once it is over.
  void respond(uint64_t exchange, HttpResponse response);
  void begin_stream(uint64_t exchange, HttpResponse head);
  void send(uint64_t exchange, std::string_view chunk);
  void end_stream(uint64_t exchange);
  void on_closed(uint64_t exchange, std::function<void()> callback);
  void charge(uint64_t exchange, const std::string& key, int64_t tokens);
  void abandoned(uint64_t exchange);

 private:
  enum class State { kIdle, kHeader, kBody, kAnswering, kLingering, kClosed };
  struct Answer;

  void guarded(const std::function<void()>& work);
  void read();
  void on_read(Transport::Error ec, size_t count);
  void on_input_end();
  void advance();
  bool parse();
  void on_header();
  void on_request();
  void on_bad_request(Transport::Error ec);
  void start_answer(Admission admission);
  void refuse_request(const HttpError& error);
  void write_head(const HttpResponse& response, std::optional<uint64_t> length);
  Answer* current(uint64_t exchange);
  void push_output(std::string_view bytes);
  void write();
  void on_written(Transport::Error ec, size_t count);
  void finish_answer();
  void record_answer(const std::string& outcome);
  void linger();
  void arm(std::chrono::milliseconds after);
  void disarm();
  void wait_for_deadline();
  void on_deadline();

  using Time = std::chrono::steady_clock::time_point;

  ConnectionHost& host_;
  std::shared_ptr<Loop> loop_;
  std::shared_ptr<Transport> transport_;  // null once closed
  std::string client_;
  State state_ = State::kIdle;
  std::unique_ptr<RequestParser> parser_;
  std::array<char, 8 << 10> arriving_{};  // what the read in progress writes to
  boost::beast::flat_buffer input_;       // arrived, not handled
  bool reading_ = false;
  bool input_ended_ = false;
  size_t discarded_ = 0;  // bytes read while lingering

  std::string output_, next_output_;  // being written, to be written after it
  size_t written_ = 0;                // of output_
  bool writing_ = false;

  std::optional<boost::asio::steady_timer> timer_;
  bool timer_waits_ = false;
  Time deadline_ = Time::max();

  uint64_t exchange_number_ = 0;
  std::unique_ptr<Answer> answer_;  // of the request that is being read or answered
};

}  // namespace fathom
