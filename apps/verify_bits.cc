// Runs one sequence in many ways through Model::step and compares the bytes of its logits.
#include "apps/verify_bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "apps/step_session.h"
#include "core/clock.h"

namespace fathom::apps {
namespace {

constexpr int64_t kTokens = 150;  // crosses the 128-token edge of attention's splits
constexpr int64_t kPrompt = 141;  // the others come one by one
constexpr uint64_t kSeed = 20240501;
// How much slower the scalar kernels are than the best ones, at worst: for planning only.
constexpr double kScalarSlowdown = 60;

std::span<const int32_t> part(const std::vector<int32_t>& tokens, int64_t begin, int64_t count) {
  return {tokens.data() + begin, static_cast<size_t>(count)};
}

void append(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

bool BitChecks::wanted(int64_t position) const {
  return position % 8 == 1 || position + 8 >= int64_t(tokens_.size()) ||
         (position >= 126 && position < 130);
}

Status BitChecks::run_alone(const Chunking& how, int64_t count, std::vector<float>* logits) {
  FATHOM_ASSIGN_OR_STATUS(StepSession session, StepSession::create(model_, how.page_size, {count}));
  logits->clear();
  std::vector<float> step_logits;
  size_t turn = 0;
  for (int64_t at = 0; at < count;) {
    int64_t length = at == 0 ? std::min(kPrompt, count) : 1;
    if (!how.chunks.empty()) length = how.chunks[turn++ % how.chunks.size()];
    length = std::min(length, count - at);
    SessionRows rows{0, part(tokens_, at, length), {}};
    for (int64_t i = 0; i < length; ++i) {
      if (wanted(at + i)) rows.logit_offsets.push_back(static_cast<int32_t>(i));
    }
    FATHOM_RETURN_IF_ERROR(session.step({&rows, 1}, &step_logits));
    append(*logits, step_logits);
    at += length;
  }
  return {};
}

CheckResult BitChecks::compare(const std::vector<float>& logits, const std::string& how) const {
  const size_t vocab = static_cast<size_t>(model_.config().vocab_size);
  const size_t rows = std::min(logits.size(), reference_.size()) / vocab;
  if (std::memcmp(logits.data(), reference_.data(), rows * vocab * sizeof(float)) == 0) {
    return CheckResult::passed(fmt::format("{}: {} rows of logits equal bit for bit", how, rows));
  }
  size_t first = 0;
  while (std::memcmp(&logits[first], &reference_[first], sizeof(float)) == 0) ++first;
  return CheckResult::failed(fmt::format(
      "{}: logits differ first in compared row {}, token id {}: {:.9g} instead of {:.9g}", how,
      first / vocab, first % vocab, logits[first], reference_[first]));
}

Result<CheckResult> BitChecks::finite() {
  const ModelConfig& config = model_.config();
  const int64_t count = std::min(kTokens, config.max_position_embeddings);
  tokens_ = pseudo_random_tokens(count, config.vocab_size, kSeed);
  const double start = now_seconds();
  FATHOM_TRY(run_alone({}, count, &reference_));
  reference_seconds_ = now_seconds() - start;
  size_t bad = 0;
  float low = 0, high = 0;
  for (const float logit : reference_) {
    bad += !std::isfinite(logit);
    low = std::min(low, logit), high = std::max(high, logit);
  }
  if (bad > 0) {
    return CheckResult::failed(
        fmt::format("{} of {} logits are infinite or not a number", bad, reference_.size()));
  }
  return CheckResult::passed(
      fmt::format("{} tokens, logits from {:.3g} to {:.3g}", count, low, high));
}

Result<CheckResult> BitChecks::chunked() {
  std::vector<float> logits;
  FATHOM_TRY(run_alone({16, {1, 7, 16, 3, 40, 2, 33}}, int64_t(tokens_.size()), &logits));
  return compare(logits, "in chunks of 1 to 40 tokens");
}

Result<CheckResult> BitChecks::batched() {
  // Ours is the second of four sequences; the others have other lengths and take part in some of
  // the steps only.
  const int64_t count = static_cast<int64_t>(tokens_.size());
  const int64_t vocab = model_.config().vocab_size;
  std::vector<std::vector<int32_t>> others;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    others.push_back(pseudo_random_tokens(count, vocab, seed));
  }
  FATHOM_ASSIGN(StepSession session, StepSession::create(model_, 16, {count, count, count, count}));
  std::vector<float> logits, step_logits;
  int64_t turn = 0;
  for (int64_t at = 0; at < count; ++turn) {
    const int64_t length = std::min<int64_t>(at < kPrompt / 2 ? 23 : 5, count - at);
    std::vector<SessionRows> rows;
    const auto add_other = [&](int sequence, int64_t want) {
      const int64_t have = session.length(sequence);
      const int64_t take = std::min(want, count - have);
      const size_t index = sequence == 0 ? 0 : static_cast<size_t>(sequence) - 1;
      if (take > 0) rows.push_back({sequence, part(others[index], have, take), {}});
    };
    add_other(0, 1 + turn % 3);
    SessionRows ours{1, part(tokens_, at, length), {}};
    for (int64_t i = 0; i < length; ++i) {
      if (wanted(at + i)) ours.logit_offsets.push_back(static_cast<int32_t>(i));
    }
    rows.push_back(std::move(ours));
    add_other(2, 17);
    if (turn % 2 == 1) add_other(3, 1);
    FATHOM_TRY(session.step(rows, &step_logits));
    append(logits, step_logits);
    at += length;
  }
  return compare(logits, "beside three other sequences");
}

Result<CheckResult> BitChecks::other_page_sizes() {
  for (const int page_size : {8, 64, 128}) {
    std::vector<float> logits;
    FATHOM_TRY(run_alone({page_size, {}}, int64_t(tokens_.size()), &logits));
    CheckResult result = compare(logits, fmt::format("pages of {} tokens", page_size));
    if (result.outcome == Verdict::kFailed) return result;
  }
  return CheckResult::passed("pages of 8, 64 and 128 tokens give the bits of 16");
}

Result<CheckResult> BitChecks::other_threads() {
  const int threads = model_.pool().size();
  const kernels::Isa isa = model_.kernels().isa();
  const int other = threads == 1 ? 2 : threads - 1;
  std::vector<float> logits;
  FATHOM_TRY(model_.set_compute(other, isa));
  const Status status = run_alone({}, int64_t(tokens_.size()), &logits);
  FATHOM_TRY(model_.set_compute(threads, isa));
  FATHOM_TRY(status);
  return compare(logits, fmt::format("{} instead of {} threads", other, threads));
}

Result<CheckResult> BitChecks::other_isa(kernels::Isa isa, double time_limit) {
  const int threads = model_.pool().size();
  const kernels::Isa usual = model_.kernels().isa();
  int64_t count = static_cast<int64_t>(tokens_.size());
  if (time_limit > 0) {
    const double allowed = time_limit / (reference_seconds_ * kScalarSlowdown);
    if (allowed < 1) count = std::max<int64_t>(2, int64_t(allowed * double(count)));
  }
  std::vector<float> logits;
  FATHOM_TRY(model_.set_compute(threads, isa));
  const Status status = run_alone({}, count, &logits);
  FATHOM_TRY(model_.set_compute(threads, usual));
  FATHOM_TRY(status);
  return compare(logits, fmt::format("{} kernels, {} tokens", kernels::isa_name(isa), count));
}

}  // namespace fathom::apps
