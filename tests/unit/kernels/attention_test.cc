// Attention: the contract written out, any page size, page order, batch mix and thread count,
// poisoned unused memory, split edges, and the double-precision truth.
#include "kernels/api/attention.h"

#include <algorithm>

#include "kernel_test_util.h"
#include "kernels/api/math.h"

namespace fathom::kernels {
namespace {

struct Model {
  int64_t heads, kv_heads, key_dim, value_dim, value_offset;
  int64_t width() const {
    return std::max(kv_heads * key_dim, value_offset + kv_heads * value_dim);
  }
};
constexpr Model kMla{3, 1, 40, 32, 0};        // latent 32, rope 8
constexpr Model kMlaWide{2, 1, 576, 512, 0};  // the real dimensions
constexpr Model kGqa{6, 2, 24, 24, 2 * 24};   // three heads a group
constexpr Model kMha{2, 2, 16, 20, 2 * 16};   // odd value size

// The entries of one sequence, by position, as written to the cache: [length, width].
struct SequenceData {
  std::vector<float> entries;
  std::vector<float> queries;  // [length, heads, key_dim]
  int64_t length;
};
SequenceData make_sequence(const Model& model, int64_t length, Data kind, Rng& rng) {
  return {random_floats(static_cast<size_t>(length * model.width()), kind, rng),
          random_floats(static_cast<size_t>(length * model.heads * model.key_dim), kind, rng),
          length};
}

// Paged memory with two layers a page, everything that is not written being NaN.
struct Cache {
  PagedKv kv;
  std::vector<std::byte> memory;
  std::vector<std::vector<int32_t>> tables;
  std::vector<const int32_t*> pointers;

  Cache(const Model& model, std::span<const SequenceData> sequences, int32_t page_size, DType dtype,
        Rng& rng) {
    const int64_t entry_bytes = model.width() * static_cast<int64_t>(dtype_size(dtype));
    kv = {.base = nullptr,
          .page_bytes = 2 * page_size * entry_bytes + 64,
          .layer_offset = page_size * entry_bytes + 32,
          .entry_bytes = entry_bytes,
          .page_size = page_size,
          .dtype = dtype};
    int32_t pages = 3;
    for (const auto& s : sequences) pages += static_cast<int32_t>(s.length / page_size + 1);
    memory.assign(static_cast<size_t>(pages * kv.page_bytes),
                  std::byte{0xff});  // NaN in both types
    kv.base = memory.data();
    std::vector<int32_t> free(static_cast<size_t>(pages));
    for (int32_t i = 0; i < pages; ++i) free[static_cast<size_t>(i)] = i;
    std::shuffle(free.begin(), free.end(), rng);
    for (const auto& s : sequences) {
      std::vector<int32_t> table;
      for (int64_t i = 0; i < s.length; i += page_size) {
        table.push_back(free.back());
        free.pop_back();
      }
      tables.push_back(table);
    }
    for (const auto& table : tables) pointers.push_back(table.data());
  }
};

struct Row {
  int32_t sequence, position;
};

// Writes the rows' entries, attends, and returns [rows, heads, value_dim].
std::vector<float> step(KernelContext& ctx, const Model& model, std::span<const SequenceData> data,
                        const Cache& cache, std::span<const Row> rows, float scale = 0.2f) {
  std::vector<int32_t> sequences, positions;
  std::vector<float> entries, q;
  for (const Row& row : rows) {
    const SequenceData& s = data[static_cast<size_t>(row.sequence)];
    sequences.push_back(row.sequence);
    positions.push_back(row.position);
    const int64_t w = model.width(), d = model.heads * model.key_dim;
    entries.insert(entries.end(), s.entries.begin() + row.position * w,
                   s.entries.begin() + (row.position + 1) * w);
    q.insert(q.end(), s.queries.begin() + row.position * d,
             s.queries.begin() + (row.position + 1) * d);
  }
  const AttentionRows r{sequences, positions, cache.pointers};
  const int64_t first = model.width() / 3;  // in two parts, as latent and rope are written
  const KvPart parts[] = {{entries.data(), model.width(), first, 0},
                          {entries.data() + first, model.width(), model.width() - first, first}};
  kv_write(ctx, cache.kv, r, parts);
  std::vector<float> out(rows.size() * static_cast<size_t>(model.heads * model.value_dim));
  attention(ctx, {.kv = cache.kv,
                  .rows = r,
                  .q = q.data(),
                  .q_row_stride = model.heads * model.key_dim,
                  .q_head_stride = model.key_dim,
                  .out = out.data(),
                  .out_row_stride = model.heads * model.value_dim,
                  .out_head_stride = model.value_dim,
                  .heads = model.heads,
                  .kv_heads = model.kv_heads,
                  .key_dim = model.key_dim,
                  .value_dim = model.value_dim,
                  .value_offset = model.value_offset,
                  .scale = scale});
  return out;
}

float exp_of(float x) {
  float y;
  exp_f32(oracle(), &x, &y, 1);
  return y;
}
float stored(float x, DType dtype) {
  return dtype == DType::kF32 ? x : bf16_to_float(float_to_bf16(x));
}

// The contract of attention.h for one query, word for word.
std::vector<float> contract(const Model& model, const SequenceData& data, DType dtype,
                            int64_t position, int64_t head, float scale) {
  const int64_t g = head / (model.heads / model.kv_heads);
  const float* q = data.queries.data() + (position * model.heads + head) * model.key_dim;
  const auto value = [&](int64_t t, int64_t e) {
    return stored(data.entries[static_cast<size_t>(t * model.width() + e)], dtype);
  };
  float big_max = 0, big_sum = 0;
  std::vector<float> out(static_cast<size_t>(model.value_dim));
  for (int64_t t0 = 0; t0 <= position; t0 += 128) {
    const int64_t tokens = std::min<int64_t>(128, position + 1 - t0);
    std::vector<float> p;
    float max = -INFINITY;
    for (int64_t t = t0; t < t0 + tokens; ++t) {
      float s = 0;
      for (int64_t d = 0; d < model.key_dim; ++d)
        s = std::fma(q[d], value(t, g * model.key_dim + d), s);
      p.push_back(s * scale);
      max = p.back() > max ? p.back() : max;
    }
    float lanes[16] = {};
    for (size_t t = 0; t < p.size(); ++t) {
      p[t] = exp_of(p[t] - max);
      lanes[t % 16] += p[t];
    }
    for (size_t step = 8; step > 0; step /= 2) {
      for (size_t i = 0; i < step; ++i) lanes[i] += lanes[i + step];
    }
    const float sum = lanes[0];
    const float larger = big_max > max ? big_max : max;
    const float a = t0 ? exp_of(big_max - larger) : 0, b = t0 ? exp_of(max - larger) : 0;
    for (int64_t d = 0; d < model.value_dim; ++d) {
      float o = 0;
      for (int64_t t = 0; t < tokens; ++t) {
        o = std::fma(p[static_cast<size_t>(t)],
                     value(t0 + t, model.value_offset + g * model.value_dim + d), o);
      }
      float& total = out[static_cast<size_t>(d)];
      total = t0 ? std::fma(o, b, total * a) : o;
    }
    big_sum = t0 ? std::fma(sum, b, big_sum * a) : sum;
    big_max = t0 ? larger : max;
  }
  for (float& o : out) o = o / big_sum;
  return out;
}

std::vector<Row> whole(int32_t sequence, int64_t length) {
  std::vector<Row> rows;
  for (int32_t i = 0; i < length; ++i) rows.push_back({sequence, i});
  return rows;
}

TEST(Attention, FollowsItsContract) {
  Rng rng(1);
  for (const Model& model : {kMla, kGqa, kMha}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      for (Data kind : {Data::kNormal, Data::kSubnormal, Data::kExtreme}) {
        if (kind != Data::kNormal && dtype == DType::kBF16) continue;
        const SequenceData data[] = {make_sequence(model, 300, kind, rng)};
        std::vector<std::vector<float>> want;
        const int64_t positions[] = {0,   1,   15,  16,  63,  64,  126, 127,
                                     128, 129, 200, 255, 256, 257, 299};
        for (int64_t p : positions) {
          for (int64_t h = 0; h < model.heads; ++h) {
            want.push_back(contract(model, data[0], dtype, p, h, 0.2f));
          }
        }
        for (const auto& machine : all_machines()) {
          const Cache cache(model, data, 16, dtype, rng);
          const auto got = step(machine->ctx, model, data, cache, whole(0, 300));
          size_t next = 0;
          for (int64_t p : positions) {
            for (int64_t h = 0; h < model.heads; ++h) {
              ASSERT_TRUE(same_rows(got.data() + (p * model.heads + h) * model.value_dim,
                                    want[next++].data(), model.value_dim))
                  << machine->name() << ", position " << p << ", head " << h << ", data "
                  << static_cast<int>(kind);
            }
          }
        }
      }
    }
  }
}

TEST(Attention, RealMlaDimensionsAgreeOnEveryInstructionSet) {
  Rng rng(2);
  const SequenceData data[] = {make_sequence(kMlaWide, 140, Data::kNormal, rng)};
  const auto want = contract(kMlaWide, data[0], DType::kF32, 139, 1, 0.05f);
  for (const auto& machine : all_machines()) {
    const Cache cache(kMlaWide, data, 64, DType::kF32, rng);
    const auto got = step(machine->ctx, kMlaWide, data, cache, whole(0, 140), 0.05f);
    ASSERT_TRUE(same_rows(got.data() + (139 * 2 + 1) * 512, want.data(), 512)) << machine->name();
  }
}

// Cuts every sequence at random, interleaves the pieces at random, and expects the bits of the
// whole-sequence result for each row.
TEST(Attention, PagesChunksBatchesAndThreadsDoNotMatter) {
  Rng rng(3);
  for (const Model& model : {kMla, kGqa, kMha}) {
    std::vector<SequenceData> data;
    for (int64_t length : {1, 127, 128, 129, 260, 391}) {
      data.push_back(
          make_sequence(model, length, length == 260 ? Data::kWide : Data::kNormal, rng));
    }
    std::vector<std::vector<float>> want;
    for (size_t s = 0; s < data.size(); ++s) {
      const Cache cache(model, data, 128, DType::kBF16, rng);
      want.push_back(
          step(oracle(), model, data, cache, whole(static_cast<int32_t>(s), data[s].length)));
    }
    const int64_t row_size = model.heads * model.value_dim;
    for (const auto& machine : all_machines()) {
      for (int32_t page_size : {8, 16, 32, 64, 128}) {
        if (machine->ctx.isa() == Isa::kScalar && page_size > 8) continue;
        const Cache cache(model, data, page_size, DType::kBF16, rng);
        std::vector<int32_t> done(data.size(), 0);
        for (;;) {
          std::vector<Row> rows;
          for (size_t s = 0; s < data.size(); ++s) {
            const auto left = static_cast<int32_t>(data[s].length) - done[s];
            const auto count =
                std::min<int32_t>(left, rng() % 3 ? static_cast<int32_t>(rng() % 150) : 1);
            for (int32_t i = 0; i < count; ++i)
              rows.push_back({static_cast<int32_t>(s), done[s]++});
          }
          if (rows.empty()) {
            bool all_done = true;
            for (size_t s = 0; s < data.size(); ++s) all_done &= done[s] == data[s].length;
            if (all_done) break;
            continue;
          }
          if (rng() % 4 == 0) std::shuffle(rows.begin(), rows.end(), rng);
          const auto got = step(machine->ctx, model, data, cache, rows);
          for (size_t i = 0; i < rows.size(); ++i) {
            ASSERT_TRUE(same_rows(
                got.data() + static_cast<int64_t>(i) * row_size,
                want[static_cast<size_t>(rows[i].sequence)].data() + rows[i].position * row_size,
                row_size))
                << machine->name() << ", page size " << page_size << ", sequence "
                << rows[i].sequence << ", position " << rows[i].position;
          }
        }
      }
    }
  }
}

TEST(Attention, ALongContextDecodedAloneEqualsItsPrompt) {
  Rng rng(4);
  const SequenceData data[] = {make_sequence(kMla, 4100, Data::kNormal, rng)};
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (!isa_supported(isa)) continue;
    Machine one(1, isa), three(3, isa);
    const Cache cache(kMla, data, 32, DType::kF32, rng);
    const auto want = step(one.ctx, kMla, data, cache, whole(0, 4100));
    const int64_t row_size = kMla.heads * kMla.value_dim;
    for (int32_t p : {127, 128, 1000, 4095, 4096, 4099}) {
      const Row row{0, p};
      const auto got = step(three.ctx, kMla, data, cache, {&row, 1});
      ASSERT_TRUE(same_rows(got.data(), want.data() + p * row_size, row_size)) << "position " << p;
    }
  }
}

TEST(Attention, IsNearTheDoublePrecisionSoftmax) {
  Rng rng(5);
  const SequenceData data[] = {make_sequence(kGqa, 333, Data::kNormal, rng)};
  Machine machine(2, best_isa());
  const Cache cache(kGqa, data, 16, DType::kF32, rng);
  const auto got = step(machine.ctx, kGqa, data, cache, whole(0, 333));
  for (int64_t p : {0, 40, 127, 128, 332}) {
    for (int64_t h = 0; h < kGqa.heads; ++h) {
      const int64_t g = h / 3;
      std::vector<double> weights;
      double sum = 0;
      for (int64_t t = 0; t <= p; ++t) {
        double s = 0;
        for (int64_t d = 0; d < 24; ++d) {
          s += double{data[0].queries[static_cast<size_t>((p * 6 + h) * 24 + d)]} *
               data[0].entries[static_cast<size_t>(t * kGqa.width() + g * 24 + d)];
        }
        weights.push_back(std::exp(s * 0.2));
        sum += weights.back();
      }
      for (int64_t d = 0; d < 24; ++d) {
        double o = 0;
        for (int64_t t = 0; t <= p; ++t) {
          o += weights[static_cast<size_t>(t)] / sum *
               data[0].entries[static_cast<size_t>(t * kGqa.width() + 48 + g * 24 + d)];
        }
        ASSERT_NEAR(got[static_cast<size_t>((p * 6 + h) * 24 + d)], o, 2e-6);
      }
    }
  }
}

}  // namespace
}  // namespace fathom::kernels
