// KV pages from a memory budget.
#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kvcache/kv_cache.h"

namespace fathom {

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Left for activations, logits and the rest of the process.
constexpr uint64_t kActivationBytes = 256 * kMiB;

// Tiny budgets read as bytes: "0.0 MiB" would explain nothing.
std::string amount(uint64_t bytes) {
  return bytes < kMiB ? fmt::format("{} bytes", bytes)
                      : fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kMiB);
}

Status too_small(uint64_t bytes, uint64_t needed, int64_t tokens) {
  return Status(
      Code::kOutOfMemory,
      fmt::format("The KV cache has {}, but {} tokens of context take {}; lower max_model_len or "
                  "give it more memory (kv_memory_bytes).",
                  amount(bytes), tokens, amount(needed)));
}

}  // namespace

Result<MemoryPlan> plan_memory(const EngineOptions& options, const KvLayout& layout,
                               int64_t model_len, uint64_t available) {
  if (options.max_model_len < 0 || options.max_model_len > model_len) {
    return error(Code::kInvalidArgument,
                 fmt::format("max_model_len is {}; this model takes up to {} tokens "
                             "(max_position_embeddings), and 0 stands for that.",
                             options.max_model_len, model_len));
  }
  const uint64_t page_bytes = KvCache::page_bytes(layout, options.block_size);
  if (page_bytes == 0) return error(Code::kInternal, "The model's KV layout takes no bytes.");
  const int64_t wanted_len = options.max_model_len > 0 ? options.max_model_len : model_len;
  const int64_t pages_per_sequence = (wanted_len + options.block_size - 1) / options.block_size;

  uint64_t budget = options.kv_memory_bytes;
  if (budget == 0) {
    const uint64_t free = available > kActivationBytes ? available - kActivationBytes : 0;
    budget = free / 10 * 9;
  } else if (budget > available) {
    return error(Code::kOutOfMemory,
                 fmt::format("kv_memory_bytes asks for {}, but only {} are available.",
                             amount(budget), amount(available)));
  }
  const int64_t affordable = static_cast<int64_t>(
      std::min<uint64_t>(budget / page_bytes, std::numeric_limits<int32_t>::max()));
  MemoryPlan plan;
  plan.page_count = affordable;
  if (options.kv_memory_bytes == 0) {
    // More pages than all sequences together can hold would only serve the prefix cache.
    plan.page_count = std::min(affordable, pages_per_sequence * options.max_num_seqs);
  }
  plan.kv_memory_bytes = static_cast<uint64_t>(plan.page_count) * page_bytes;
  plan.max_model_len = std::min(wanted_len, plan.page_count * options.block_size);
  if (plan.page_count < 1) return error(too_small(budget, page_bytes, options.block_size));
  if (options.max_model_len > plan.max_model_len) {
    return error(too_small(budget, page_bytes * static_cast<uint64_t>(pages_per_sequence),
                           options.max_model_len));
  }
  return plan;
}

}  // namespace fathom
