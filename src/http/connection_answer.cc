// Runs handlers and writes their answers.
#include "http/connection_answer.h"

#include <atomic>
#include <exception>

#include "core/log.h"
#include "http/errors.h"
#include "http/response_head.h"

namespace fathom {
namespace {

constexpr int kClientClosed = 499;  // as other servers report a client that left before the answer

// The handler's view of the request on a connection. May outlive it and be dropped on any thread.
class LiveExchange final : public Exchange {
 public:
  LiveExchange(std::shared_ptr<Connection> connection, uint64_t number, HttpRequest request)
      : connection_(std::move(connection)),
        loop_(connection_->loop()),
        number_(number),
        request_(std::move(request)) {}
  ~LiveExchange() override {
    if (answered_) return;
    loop_->post(
        [connection = std::move(connection_), number = number_] { connection->abandoned(number); });
  }

  const HttpRequest& request() const override { return request_; }
  void post(std::function<void()> work) override { loop_->post(std::move(work)); }
  void respond(HttpResponse response) override {
    answered_ = true;
    connection_->respond(number_, std::move(response));
  }
  void begin_stream(HttpResponse head) override {
    connection_->begin_stream(number_, std::move(head));
  }
  void send(std::string chunk) override { connection_->send(number_, chunk); }
  void end_stream() override {
    answered_ = true;
    connection_->end_stream(number_);
  }
  void on_closed(std::function<void()> callback) override {
    connection_->on_closed(number_, std::move(callback));
  }
  void charge(int64_t tokens) override { connection_->charge(number_, request_.key, tokens); }

 private:
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Loop> loop_;
  uint64_t number_;
  HttpRequest request_;
  std::atomic<bool> answered_{false};
};

}  // namespace

void Connection::start_answer(Admission admission) {
  Answer& answer = *answer_;
  state_ = State::kAnswering;
  disarm();
  const bool unread_body = !parser_->is_done();
  if (unread_body || host_.gate.phase() == ServerPhase::kDraining) answer.keep_alive = false;
  HttpRequest request = std::move(parser_->request);
  parser_.reset();
  answer.key = request.key;
  answer.admission = std::move(admission);
  if (answer.admission.refusal) {
    respond(answer.number, std::move(*answer.admission.refusal));
    return;
  }
  const std::shared_ptr<const Route> route = answer.admission.route;
  answer.handled = true;
  answer.work = route->is_work;
  if (answer.work) ++host_.running_work;
  auto exchange =
      std::make_shared<LiveExchange>(shared_from_this(), answer.number, std::move(request));
  try {
    route->handler(std::move(exchange));  // dropped without an answer: a 500
  } catch (const std::exception& e) {
    log::error("{} {} failed: {}.", route->method, route->path, e.what());
  }
}

// Answers before the gate has looked; the connection ends if the body was not read.
void Connection::refuse_request(const HttpError& error) {
  Admission admission;
  admission.refusal = error_response(error, answer_->path, answer_->id);
  admission.route_label = answer_->admission.route_label;
  answer_->keep_alive = answer_->keep_alive && parser_->is_done();
  start_answer(std::move(admission));
}

void Connection::refuse() {
  host_.connections.insert(shared_from_this());
  ++host_.open_connections;
  host_.metrics.connection_opened();
  host_.metrics.exchange_started();
  state_ = State::kAnswering;
  answer_ = std::make_unique<Answer>();
  answer_->number = ++exchange_number_;
  answer_->id = request_id("");
  respond(answer_->number,
          error_response({503, "The server has too many connections; try again later.",
                          "too_many_connections", ""},
                         "", answer_->id));
}

Connection::Answer* Connection::current(uint64_t exchange) {
  const bool open = state_ == State::kAnswering && answer_ && answer_->number == exchange;
  return open && !answer_->complete ? answer_.get() : nullptr;
}

void Connection::write_head(const HttpResponse& response, std::optional<uint64_t> length) {
  Answer& answer = *answer_;
  answer.begun = true;
  answer.status = response.status;
  if (host_.gate.phase() == ServerPhase::kDraining) answer.keep_alive = false;
  ResponseFraming framing;
  if (!length && answer.http10) answer.keep_alive = false;  // its end is the connection's end
  framing.keep_alive = answer.keep_alive;
  framing.http10 = answer.http10;
  framing.chunked = !length && !answer.http10;
  framing.content_length = length;
  framing.request_id = answer.id;
  framing.allow_origin = answer.allow_origin;
  push_output(response_head(response, framing));
}

void Connection::respond(uint64_t exchange, HttpResponse response) {
  Answer* answer = current(exchange);
  if (answer == nullptr || answer->begun) return;
  answer->complete = true;  // first, since writing may find the client gone
  answer->on_closed = nullptr;
  const bool body = !answer->head_only && response.status != 204 && response.status != 304;
  answer->body_bytes = body ? response.body.size() : 0;
  write_head(response, response.body.size());
  if (body) push_output(response.body);
}

void Connection::begin_stream(uint64_t exchange, HttpResponse head) {
  Answer* answer = current(exchange);
  if (answer == nullptr || answer->begun) return;
  answer->stream = true;
  answer->event_stream = head.content_type.rfind("text/event-stream", 0) == 0;
  write_head(head, std::nullopt);
}

void Connection::send(uint64_t exchange, std::string_view chunk) {
  Answer* answer = current(exchange);
  if (answer == nullptr || !answer->stream || chunk.empty() || answer->head_only) return;
  answer->body_bytes += chunk.size();
  if (answer->http10) {
    push_output(chunk);
  } else {
    push_output(framed_chunk(chunk));
  }
  if (output_.size() - written_ + next_output_.size() > host_.limits.max_buffered_bytes) {
    close(Abort::kSlowReader);
  }
}

void Connection::end_stream(uint64_t exchange) {
  Answer* answer = current(exchange);
  if (answer == nullptr || !answer->stream) return;
  answer->complete = true;
  answer->on_closed = nullptr;
  if (!answer->http10 && !answer->head_only) push_output(kLastChunk);
  if (!writing_) finish_answer();
}

void Connection::on_closed(uint64_t exchange, std::function<void()> callback) {
  if (Answer* answer = current(exchange)) {
    answer->on_closed = std::move(callback);
  } else if (!(answer_ && answer_->number == exchange && answer_->complete)) {
    loop_->post(std::move(callback));
  }
}

// A client that leaves has still used what was computed for it.
void Connection::charge(uint64_t exchange, const std::string& key, int64_t tokens) {
  if (!key.empty()) host_.gate.keys().charge(key, tokens);
  if (answer_ && answer_->number == exchange) answer_->tokens += tokens;
}

// Its last holder dropped the exchange.
void Connection::abandoned(uint64_t exchange) {
  const Answer* answer = current(exchange);
  if (answer == nullptr) return;
  log::error("The request {} was left without an answer.", answer->id);
  if (answer->begun) {
    close(Abort::kShutdown);  // a cut stream is all that is left to say
    return;
  }
  respond(exchange,
          error_response({500, "The server failed to answer this request.", "internal_error", ""},
                         answer->path, answer->id));
}

void Connection::abort_work() {
  if (state_ == State::kIdle || state_ == State::kHeader || state_ == State::kBody) {
    close(Abort::kShutdown);
    return;
  }
  if (state_ != State::kAnswering || answer_->complete) return;
  Answer& answer = *answer_;
  host_.metrics.exchange_aborted(Abort::kDrainTimeout);
  if (answer.on_closed) loop_->post(std::move(answer.on_closed));
  answer.on_closed = nullptr;
  const HttpError error{503, "The server is shutting down; the answer is not complete.",
                        "shutting_down", ""};
  if (!answer.begun) {
    respond(answer.number, error_response(error, answer.path, answer.id));
    return;
  }
  answer.keep_alive = false;
  const uint64_t number = answer.number;
  if (answer.event_stream) send(number, error_event(error, answer.path, answer.id));
  end_stream(number);
}

void Connection::push_output(std::string_view bytes) {
  next_output_.append(bytes);
  if (!writing_) write();
}

void Connection::write() {
  if (state_ == State::kClosed) return;
  if (written_ == output_.size()) {
    output_.clear();
    written_ = 0;
    std::swap(output_, next_output_);
  }
  if (output_.empty()) {
    if (state_ == State::kAnswering) {
      disarm();
      if (answer_->complete) finish_answer();
    }
    return;
  }
  writing_ = true;
  if (state_ == State::kAnswering) arm(host_.limits.write_timeout);
  transport_->write_some(boost::asio::buffer(output_.data() + written_, output_.size() - written_),
                         [self = shared_from_this()](Transport::Error ec, size_t count) {
                           self->guarded([&] { self->on_written(ec, count); });
                         });
}

void Connection::on_written(Transport::Error ec, size_t count) {
  writing_ = false;
  if (state_ == State::kClosed) return;
  if (ec) {
    close(Abort::kClientGone);
    return;
  }
  written_ += count;
  write();
}

void Connection::record_answer(const std::string& outcome) {
  const Answer& answer = *answer_;
  if (answer.work) --host_.running_work;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - answer.start).count();
  const int status = answer.status == 0 ? kClientClosed : answer.status;
  const bool known = answer.admission.route_label != "unmatched";
  host_.metrics.exchange_finished(
      {known ? answer.method : "other", answer.admission.route_label, status, seconds});
  AccessEntry entry;
  entry.id = answer.id.empty() ? "-" : answer.id;
  entry.client = client_;
  entry.method = answer.method.empty() ? "-" : answer.method;
  entry.path = answer.path.empty() ? "-" : answer.path;
  entry.key = answer.key;
  entry.status = status;
  entry.bytes = answer.body_bytes;
  entry.seconds = seconds;
  entry.tokens = answer.tokens;
  entry.outcome = outcome;
  entry.probe = answer.handled && !answer.admission.route->needs_key;
  host_.log.write(entry);
}

// Everything is written: on to the next request, or to the end of the connection.
void Connection::finish_answer() {
  const bool keep_alive =
      answer_->keep_alive && !input_ended_ && host_.gate.phase() != ServerPhase::kDraining;
  record_answer("ok");
  answer_.reset();
  if (!keep_alive) {
    state_ = State::kLingering;
    linger();
    return;
  }
  state_ = State::kIdle;
  arm(host_.limits.idle_timeout);
  // Not from here: a long pipeline would become a deep recursion.
  loop_->post([self = shared_from_this()] {
    self->guarded([&] {
      if (self->state_ == State::kClosed) return;
      self->advance();
      self->read();
    });
  });
}

}  // namespace fathom
