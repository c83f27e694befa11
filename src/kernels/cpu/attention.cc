// Paged attention: rows grouped in blocks that share keys; long contexts shared out by splits.
#include "kernels/api/attention.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/parallel.h"

namespace fathom::kernels {
namespace {

constexpr int64_t kBlockQueries = 128;  // (row, head) pairs that read one split's keys together

int64_t element_size(const PagedKv& kv) {
  return kv.dtype == DType::kF32 ? 4 : 2;
}
int64_t padded(int64_t n) {
  return (n + 15) / 16 * 16;
}

std::byte* entry(const PagedKv& kv, const int32_t* pages, int64_t position) {
  const int64_t page = pages[position / kv.page_size];
  return kv.base + page * kv.page_bytes + kv.layer_offset +
         position % kv.page_size * kv.entry_bytes;
}

// Consecutive rows of one sequence.
struct Block {
  int64_t first_row;
  int64_t rows;
  int64_t last_position;  // the largest
  int64_t splits() const { return last_position / kAttentionSplit + 1; }
};

// Shapes of one call, and where its pieces of memory lie.
struct Call {
  const AttentionArgs& args;
  const KernelTable& table;
  int64_t group;         // query heads per kv head
  int64_t value_stride;  // padded value_dim
  int64_t rows_per_block;

  Call(KernelContext& ctx, const AttentionArgs& a)
      : args(a),
        table(ctx.table()),
        group(a.heads / a.kv_heads),
        value_stride(padded(a.value_dim)),
        rows_per_block(std::max<int64_t>(1, kBlockQueries / group)) {}

  int64_t block_queries() const { return rows_per_block * group; }
  int64_t split_scratch_floats() const {
    return 2 * args.key_dim * kPanel + kAttentionSplit * value_stride +
           block_queries() * (kAttentionSplit + 2);
  }
  int64_t state_floats() const { return block_queries() * (value_stride + 2); }
  // Keys and values of a split, query pointers, visible counts.
  size_t pointer_bytes() const {
    return 2 * kAttentionSplit * sizeof(void*) +
           static_cast<size_t>(block_queries()) * (sizeof(void*) + sizeof(int32_t));
  }
  size_t worker_bytes() const {
    return pointer_bytes() + 64 +
           static_cast<size_t>(split_scratch_floats() + state_floats()) * sizeof(float);
  }
};

// Running softmax of a block's queries.
struct State {
  float* max;  // [queries]
  float* sum;  // [queries]
  float* out;  // [queries, value_stride]
  State(float* memory, int64_t queries)
      : max(memory), sum(memory + queries), out(memory + 2 * queries) {}
};

// A thread's view of its scratch for blocks of one call.
class BlockRunner {
 public:
  BlockRunner(const Call& call, std::byte* scratch)
      : call_(call),
        keys_(reinterpret_cast<const std::byte**>(scratch)),
        values_(keys_ + kAttentionSplit),
        q_(reinterpret_cast<const float**>(values_ + kAttentionSplit)),
        visible_(reinterpret_cast<int32_t*>(q_ + call.block_queries())),
        floats_(reinterpret_cast<float*>(scratch + (call.pointer_bytes() + 63) / 64 * 64)) {}

  float* state_memory() const { return floats_ + call_.split_scratch_floats(); }

  void bind(const Block& block, int64_t kv_head) {
    block_ = block;
    kv_head_ = kv_head;
    const AttentionArgs& a = call_.args;
    for (int64_t i = 0; i < block.rows * call_.group; ++i) {
      const int64_t row = block.first_row + i / call_.group;
      const int64_t head = kv_head * call_.group + i % call_.group;
      q_[i] = a.q + row * a.q_row_stride + head * a.q_head_stride;
    }
  }

  // Attends to split s, starting `state` or merging into it.
  void run(int64_t s, bool first, const State& state) {
    const AttentionArgs& a = call_.args;
    const int64_t start = s * kAttentionSplit;
    const int64_t tokens = std::min(kAttentionSplit, block_.last_position + 1 - start);
    const int64_t size = element_size(a.kv);
    const auto sequence = a.rows.sequences[static_cast<size_t>(block_.first_row)];
    const int32_t* pages = a.rows.page_tables[static_cast<size_t>(sequence)];
    for (int64_t t = 0; t < tokens; ++t) {
      const std::byte* e = entry(a.kv, pages, start + t);
      keys_[t] = e + kv_head_ * a.key_dim * size;
      values_[t] = e + (a.value_offset + kv_head_ * a.value_dim) * size;
    }
    for (int64_t i = 0; i < block_.rows * call_.group; ++i) {
      const int64_t position =
          a.rows.positions[static_cast<size_t>(block_.first_row + i / call_.group)];
      visible_[i] =
          static_cast<int32_t>(std::clamp<int64_t>(position + 1 - start, 0, kAttentionSplit));
    }
    call_.table.attend_split({.keys = keys_,
                              .values = values_,
                              .tokens = tokens,
                              .stored = a.kv.dtype == DType::kF32 ? Stored::kF32 : Stored::kBF16,
                              .key_dim = a.key_dim,
                              .value_dim = a.value_dim,
                              .q = q_,
                              .visible = visible_,
                              .queries = block_.rows * call_.group,
                              .scale = a.scale,
                              .first = first,
                              .state_max = state.max,
                              .state_sum = state.sum,
                              .state_out = state.out,
                              .scratch = floats_});
  }

 private:
  const Call& call_;
  const std::byte** keys_;
  const std::byte** values_;
  const float** q_;
  int32_t* visible_;
  float* floats_;
  Block block_{};
  int64_t kv_head_ = 0;
};

void write_query(const Call& call, const Block& block, int64_t kv_head, int64_t i,
                 const State& state) {
  const AttentionArgs& a = call.args;
  const int64_t row = block.first_row + i / call.group;
  const int64_t head = kv_head * call.group + i % call.group;
  call.table.divide_row(state.out + i * call.value_stride, state.sum[i],
                        a.out + row * a.out_row_stride + head * a.out_head_stride, a.value_dim);
}

// One thread walks all splits of a block and kv head.
void walk_block(const Call& call, const Block& block, int64_t kv_head, std::byte* scratch) {
  BlockRunner runner(call, scratch);
  runner.bind(block, kv_head);
  const int64_t queries = block.rows * call.group;
  const State state(runner.state_memory(), queries);
  for (int64_t s = 0; s < block.splits(); ++s) runner.run(s, s == 0, state);
  for (int64_t i = 0; i < queries; ++i) write_query(call, block, kv_head, i, state);
}

// A long block: its splits are computed by all threads, a wave at a time, each into its own state;
// the states are then merged in ascending order, query by query. Same arithmetic as walk_block.
void spread_block(KernelContext& ctx, const Call& call, const Block& block) {
  const int64_t queries = block.rows * call.group;
  const int64_t kv_heads = call.args.kv_heads;
  const int64_t state_floats = queries * (call.value_stride + 2);
  const int64_t wave = std::max<int64_t>(1, 8 * ctx.pool().size() / kv_heads);
  auto* memory = reinterpret_cast<float*>(ctx.shared_scratch(
      KernelContext::kSlotA,
      static_cast<size_t>((wave + 1) * kv_heads * state_floats) * sizeof(float)));
  const auto state_of = [&](int64_t kv_head, int64_t slot) {  // slot 0: the running state
    return State(memory + (kv_head * (wave + 1) + slot) * state_floats, queries);
  };
  for (int64_t begin = 0; begin < block.splits(); begin += wave) {
    const int64_t count = std::min(wave, block.splits() - begin);
    ctx.pool().parallel_for(count * kv_heads, [&](int64_t unit, int worker) {
      const int64_t kv_head = unit / count, s = begin + unit % count;
      BlockRunner runner(call, ctx.worker_scratch(worker));
      runner.bind(block, kv_head);
      runner.run(s, true, state_of(kv_head, s == 0 ? 0 : unit % count + 1));
    });
    ctx.pool().parallel_for(queries * kv_heads, [&](int64_t unit, int) {
      const int64_t kv_head = unit / queries, i = unit % queries;
      const State total = state_of(kv_head, 0);
      const int64_t position =
          call.args.rows.positions[static_cast<size_t>(block.first_row + i / call.group)];
      float* out = total.out + i * call.value_stride;
      for (int64_t n = 0; n < count; ++n) {
        const int64_t s = begin + n;
        if (s == 0 || s * kAttentionSplit > position) continue;
        const State split = state_of(kv_head, n + 1);
        call.table.merge_state(total.max + i, total.sum + i, out, split.max[i], split.sum[i],
                               split.out + i * call.value_stride, call.value_stride);
      }
      if (begin + count == block.splits()) write_query(call, block, kv_head, i, total);
    });
  }
}

// Consecutive rows of one sequence become blocks of at most rows_per_block rows.
int64_t make_blocks(const Call& call, Block* blocks) {
  const AttentionRows& rows = call.args.rows;
  int64_t count = 0;
  for (size_t i = 0; i < rows.positions.size(); ++i) {
    const int64_t position = rows.positions[i];
    Block* last = count > 0 ? blocks + count - 1 : nullptr;
    if (last && last->rows < call.rows_per_block && rows.sequences[i] == rows.sequences[i - 1]) {
      ++last->rows;
      last->last_position = std::max(last->last_position, position);
    } else {
      new (blocks + count++) Block{static_cast<int64_t>(i), 1, position};
    }
  }
  return count;
}

}  // namespace

void kv_write(KernelContext& ctx, const PagedKv& kv, const AttentionRows& rows,
              std::span<const KvPart> parts) {
  int64_t width = 0;
  for (const KvPart& part : parts) width += part.width;
  const auto m = static_cast<int64_t>(rows.positions.size());
  for_ranges(ctx, m, width * 8, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const auto at = static_cast<size_t>(i);
      const int32_t* pages = rows.page_tables[static_cast<size_t>(rows.sequences[at])];
      std::byte* to = entry(kv, pages, rows.positions[at]);
      for (const KvPart& part : parts) {
        const float* from = part.src + i * part.src_stride;
        std::byte* dst = to + part.offset * element_size(kv);
        if (kv.dtype == DType::kF32) {
          std::memcpy(dst, from, static_cast<size_t>(part.width) * sizeof(float));
        } else {
          ctx.table().narrow_bf16(from, dst, part.width);
        }
      }
    }
  });
}

void attention(KernelContext& ctx, const AttentionArgs& args) {
  const Call call(ctx, args);
  const size_t m = args.rows.positions.size();
  auto* blocks =
      reinterpret_cast<Block*>(ctx.shared_scratch(KernelContext::kSlotList, m * sizeof(Block)));
  const int64_t count = make_blocks(call, blocks);
  if (count == 0) return;
  ctx.reserve_worker_scratch(call.worker_bytes());
  int64_t total = 0;  // in (row, split) pairs
  for (int64_t i = 0; i < count; ++i) total += blocks[i].splits() * blocks[i].rows;
  // A block that alone would keep one thread busy past the others is spread over all of them.
  const int64_t threads = ctx.pool().size();
  const auto is_long = [&](const Block& b) {
    return threads > 1 && b.splits() > 1 &&
           b.splits() * b.rows * 2 * threads > total * args.kv_heads;
  };
  const int64_t walked =
      std::stable_partition(blocks, blocks + count, [&](const Block& b) { return !is_long(b); }) -
      blocks;
  // Later rows of a prompt see more: longest first.
  std::stable_sort(blocks, blocks + walked, [](const Block& a, const Block& b) {
    return a.splits() * a.rows > b.splits() * b.rows;
  });
  ctx.pool().parallel_for(walked * args.kv_heads, [&](int64_t unit, int worker) {
    walk_block(call, blocks[unit / args.kv_heads], unit % args.kv_heads,
               ctx.worker_scratch(worker));
  });
  for (int64_t i = walked; i < count; ++i) spread_block(ctx, call, blocks[i]);
}

}  // namespace fathom::kernels
