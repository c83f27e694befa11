// Reads requests, feeds the parser, keeps the deadlines.
#include "http/connection.h"

#include <exception>

#include "core/log.h"
#include "http/connection_answer.h"
#include "http/errors.h"
#include "http/target.h"

namespace fathom {
namespace {

namespace http = boost::beast::http;

constexpr size_t kMaxPipelined = 64 << 10;  // bytes of later requests that are read ahead
constexpr size_t kMaxDiscarded = 64 << 20;
constexpr std::chrono::milliseconds kLingerTime{2000};

}  // namespace

Connection::Connection(ConnectionHost& host, std::shared_ptr<Transport> transport,
                       std::string client)
    : host_(host),
      loop_(host.loop),
      transport_(std::move(transport)),
      client_(std::move(client)),
      timer_(std::in_place, host.loop->context()) {}

Connection::~Connection() = default;

// Out of memory, most likely: the connection goes, the server stays.
void Connection::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    log::error("The connection of {} was closed: {}.", client_, e.what());
    close(Abort::kShutdown);
  }
}

void Connection::start() {
  host_.connections.insert(shared_from_this());
  ++host_.open_connections;
  host_.metrics.connection_opened();
  arm(host_.limits.header_timeout);
  transport_->handshake([self = shared_from_this()](Transport::Error ec) {
    if (self->state_ == State::kClosed) return;
    if (ec) {
      log::debug("TLS handshake with {} failed: {}.", self->client_, ec.message());
      self->close(Abort::kClientGone);
      return;
    }
    self->arm(self->host_.limits.idle_timeout);
    self->read();
  });
}

void Connection::read() {
  if (reading_ || input_ended_ || state_ == State::kClosed) return;
  if (state_ == State::kAnswering && input_.size() >= kMaxPipelined) return;
  reading_ = true;
  transport_->read_some(boost::asio::buffer(arriving_),
                        [self = shared_from_this()](Transport::Error ec, size_t count) {
                          self->guarded([&] { self->on_read(ec, count); });
                        });
}

void Connection::on_read(Transport::Error ec, size_t count) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (ec) {
    on_input_end();
    return;
  }
  if (state_ == State::kLingering) {
    discarded_ += count;
    if (discarded_ > kMaxDiscarded) {
      close(Abort::kClientGone);
      return;
    }
  } else {
    input_.commit(boost::asio::buffer_copy(input_.prepare(count),
                                           boost::asio::buffer(arriving_.data(), count)));
    advance();
  }
  read();
}

// A client that stops sending is taken to be gone, unless its answer is complete already.
void Connection::on_input_end() {
  input_ended_ = true;
  const bool complete = state_ == State::kAnswering && answer_ && answer_->complete;
  if (!complete) close(Abort::kClientGone);
}

// Handles what has been read, up to the point where an answer must come first.
void Connection::advance() {
  while (input_.size() > 0 &&
         (state_ == State::kIdle || state_ == State::kHeader || state_ == State::kBody)) {
    if (!parse()) return;
  }
}

// Feeds the parser once; false if it needs more bytes.
bool Connection::parse() {
  if (state_ == State::kIdle) {
    // Empty lines in front of a request are allowed.
    const auto* bytes = static_cast<const char*>(input_.data().data());
    if (bytes[0] == '\r' || bytes[0] == '\n') {
      input_.consume(1);
      return true;
    }
    parser_ = std::make_unique<RequestParser>(host_.limits.max_header_bytes,
                                              host_.gate.options().max_body_bytes);
    answer_ = std::make_unique<Answer>();
    answer_->number = ++exchange_number_;
    host_.metrics.exchange_started();
    state_ = State::kHeader;
    arm(host_.limits.header_timeout);
  }
  Transport::Error ec;
  const size_t used = parser_->put(input_.data(), ec);
  input_.consume(used);
  if (ec == http::error::need_more) return false;
  if (ec) {
    on_bad_request(ec);
    return false;
  }
  if (state_ == State::kHeader && parser_->is_header_done()) on_header();
  if (state_ == State::kBody && parser_->is_done()) on_request();
  return true;
}

void Connection::on_header() {
  HttpRequest& request = parser_->request;
  request.id = request_id(request.header("x-request-id"));
  request.client = client_;
  Answer& answer = *answer_;
  answer.id = request.id;
  answer.method = request.method;
  answer.path = parser_->target;  // until it is decoded
  answer.http10 = parser_->version < 11;
  answer.head_only = request.method == "HEAD";
  answer.keep_alive = parser_->keep_alive();

  Result<Target> target = parse_target(parser_->target);
  if (!target) {
    refuse_request({400, target.error().message(), "bad_request", ""});
    return;
  }
  answer.path = request.path = std::move(target->path);
  request.query = std::move(target->query);
  answer.allow_origin = host_.gate.allowed_origin(request);
  const std::string_view coding = request.header("transfer-encoding");
  if (!coding.empty() && (answer.http10 || !parser_->chunked() || coding.size() != 7)) {
    refuse_request({answer.http10 ? 400 : 501,
                    "The only Transfer-Encoding of a request is chunked, in HTTP/1.1.",
                    "bad_transfer_encoding", ""});
    return;
  }
  if (!answer.http10 && request.headers.count("host") == 0) {
    refuse_request({400, "The request has no Host header.", "missing_host", ""});
    return;
  }
  const std::string_view expect = request.header("expect");
  if (!expect.empty() && expect != "100-continue" && expect != "100-Continue") {
    refuse_request({417, "The only Expect that is known is 100-continue.", "bad_expect", ""});
    return;
  }
  BodyFacts facts;
  facts.version = parser_->version;
  facts.chunked = parser_->chunked();
  if (request.headers.count("content-length") > 0) {
    facts.content_length = parser_->content_length().value_or(0);
  }
  Admission admission = host_.gate.admit(request, facts);
  const bool refused = admission.refusal.has_value();
  if (refused || parser_->is_done()) {
    start_answer(std::move(admission));
    return;
  }
  answer.admission = std::move(admission);
  state_ = State::kBody;
  arm(host_.limits.body_timeout);
  if (!expect.empty() && !answer.http10 && input_.size() == 0) {
    push_output("HTTP/1.1 100 Continue\r\n\r\n");
  }
}

void Connection::on_request() {
  start_answer(std::move(answer_->admission));
}

void Connection::on_bad_request(Transport::Error ec) {
  Answer& answer = *answer_;
  answer.keep_alive = false;
  HttpRequest& request = parser_->request;
  if (answer.id.empty()) {
    answer.id = request_id(request.header("x-request-id"));
    answer.method = request.method.empty() ? "-" : request.method;
    answer.path = parser_->target.empty() ? "-" : parser_->target;
  }
  if (ec == http::error::header_limit) {
    refuse_request({431,
                    "The request's header is longer than " +
                        std::to_string(host_.limits.max_header_bytes) + " bytes.",
                    "header_too_large", ""});
  } else if (ec == http::error::body_limit) {
    refuse_request({413,
                    "The body is longer than the " +
                        std::to_string(host_.gate.options().max_body_bytes) +
                        " bytes that are allowed (--max-body-size).",
                    "body_too_large", ""});
  } else if (ec == http::error::bad_version) {
    refuse_request({505, "This server speaks HTTP/1.1 and HTTP/1.0.", "bad_version", ""});
  } else {
    refuse_request(
        {400, "The request is not valid HTTP (" + ec.message() + ").", "bad_request", ""});
  }
}

void Connection::arm(std::chrono::milliseconds after) {
  deadline_ = std::chrono::steady_clock::now() + after;
  wait_for_deadline();
}

void Connection::disarm() {
  deadline_ = Time::max();
}

// The timer is left alone while it ends before the deadline: deadlines mostly move on.
void Connection::wait_for_deadline() {
  if (!timer_ || deadline_ == Time::max()) return;
  if (timer_waits_ && timer_->expiry() <= deadline_) return;
  timer_waits_ = true;
  timer_->expires_at(deadline_);
  timer_->async_wait([self = shared_from_this()](Transport::Error ec) {
    if (ec || self->state_ == State::kClosed) return;  // moved to an earlier time, or closed
    self->timer_waits_ = false;
    if (std::chrono::steady_clock::now() < self->deadline_) {
      self->wait_for_deadline();
    } else {
      self->guarded([&] { self->on_deadline(); });
    }
  });
}

void Connection::on_deadline() {
  disarm();
  switch (state_) {
    case State::kHeader:
    case State::kBody:
      if (answer_->id.empty()) answer_->id = request_id("");
      if (answer_->method.empty()) answer_->method = answer_->path = "-";
      answer_->keep_alive = false;
      refuse_request({408, "The request did not arrive in time.", "request_timeout", ""});
      break;
    case State::kAnswering:
      close(Abort::kSlowReader);
      break;
    case State::kIdle:
    case State::kLingering:
    case State::kClosed:
      close(Abort::kClientGone);
      break;
  }
}

void Connection::linger() {
  if (input_ended_) {
    close(Abort::kClientGone);
    return;
  }
  // Closing with unread bytes would reset the connection, and with it the answer on its way.
  state_ = State::kLingering;
  transport_->end_writing();
  input_.consume(input_.size());
  arm(kLingerTime);
  read();
}

void Connection::close(Abort reason) {
  if (state_ == State::kClosed) return;
  const bool started = state_ != State::kIdle && state_ != State::kLingering;
  state_ = State::kClosed;
  if (started && answer_) {
    if (answer_->on_closed) loop_->post(std::move(answer_->on_closed));
    if (answer_->handled) host_.metrics.exchange_aborted(reason);
    record_answer(abort_name(reason));
  }
  answer_.reset();
  disarm();
  timer_.reset();
  transport_->close();
  transport_.reset();  // handlers that still wait for their error hold it
  host_.metrics.connection_closed();
  --host_.open_connections;
  host_.connections.erase(shared_from_this());
}

}  // namespace fathom
