// Kernel speed beside this machine's measured ceilings: products, experts, attention, packing.
//
// Counters: GB/s of weights or cache read with its fraction of read bandwidth, GFLOP/s with its
// fraction of the FMA peak; both ceilings are measured at the start with the same threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "core/file.h"
#include "kernels/api/attention.h"
#include "kernels/api/context.h"
#include "kernels/api/linear.h"
#include "kernels/api/machine.h"
#include "kernels/api/moe.h"

namespace fathom::kernels {
namespace {

struct Bench {
  ThreadPool pool{0};
  KernelContext ctx{&pool};
  double bandwidth = measure_read_bandwidth(ctx);
  double peak = measure_fma_peak(ctx);
};
Bench& bench() {
  static Bench instance;
  return instance;
}

void report(benchmark::State& state, double bytes, double flops) {
  const auto rounds = static_cast<double>(state.iterations());
  using C = benchmark::Counter;
  state.counters["GB/s"] = C(bytes * rounds / 1e9, C::kIsRate);
  state.counters["of_read"] = C(bytes * rounds / bench().bandwidth, C::kIsRate);
  state.counters["GFLOP/s"] = C(flops * rounds / 1e9, C::kIsRate);
  state.counters["of_peak"] = C(flops * rounds / bench().peak, C::kIsRate);
}

// Random weights of any format, packed; several copies so that no pass finds them in a cache.
struct Weights {
  HugeBuffer memory;
  std::vector<float> scales;
  PackedMatrix matrix;
  Weights(WeightFormat format, int64_t n, int64_t k) {
    const size_t bytes = *packed_bytes(format, n, k);
    memory = std::move(*HugeBuffer::allocate(bytes));
    bench().pool.parallel_for(64, [&](int64_t unit, int) {
      std::minstd_rand rng(static_cast<unsigned>(unit + 1));
      const size_t from = bytes / 64 * static_cast<size_t>(unit);
      const size_t to = unit == 63 ? bytes : from + bytes / 64;
      for (size_t i = from; i < to; ++i) {  // exponents near one in every format
        memory.data()[i] = static_cast<std::byte>(i % 4 % 2 ? 0x3c + rng() % 4 : rng() % 256);
      }
    });
    scales.assign(static_cast<size_t>((n + 127) / 128 * ((k + 127) / 128)), 1.0f);
    matrix = {format, n, k, memory.data(), scales.data()};
  }
};

std::vector<float> ones(int64_t n) {
  return std::vector<float>(static_cast<size_t>(n), 0.01f);
}

void BM_Linear(benchmark::State& state, WeightFormat format) {
  const int64_t n = state.range(0), k = state.range(1), m = state.range(2);
  const auto bytes = static_cast<double>(*packed_bytes(format, n, k));
  const auto copies = static_cast<size_t>(m > 8 ? 1 : 1 + 512e6 / bytes);
  std::vector<std::unique_ptr<Weights>> w;
  for (size_t i = 0; i < copies; ++i) w.push_back(std::make_unique<Weights>(format, n, k));
  const auto x = ones(m * k);
  auto y = ones(m * n);
  size_t next = 0;
  for (auto _ : state) {
    linear(bench().ctx, {.w = &w[next++ % copies]->matrix,
                         .x = x.data(),
                         .x_stride = k,
                         .y = y.data(),
                         .y_stride = n,
                         .m = m});
  }
  report(state, bytes, 2.0 * static_cast<double>(n * k * m));
}
void linear_shapes(benchmark::internal::Benchmark* b) {
  b->UseRealTime()->ArgNames({"n", "k", "m"});
  for (int64_t m : {1, 2, 4, 16, 512}) b->Args({10944, 2048, m});
  b->Args({2048, 10944, 1})->Args({2048, 2048, 1})->Args({576, 2048, 1})->Args({2048, 2048, 512});
}
BENCHMARK_CAPTURE(BM_Linear, bf16, WeightFormat::kBF16)->Apply(linear_shapes);
BENCHMARK_CAPTURE(BM_Linear, f32, WeightFormat::kF32)
    ->UseRealTime()
    ->Args({10944, 2048, 1})
    ->Args({10944, 2048, 512});
BENCHMARK_CAPTURE(BM_Linear, f16, WeightFormat::kF16)->UseRealTime()->Args({10944, 2048, 1});
BENCHMARK_CAPTURE(BM_Linear, f8, WeightFormat::kF8E4M3Block)
    ->UseRealTime()
    ->Args({10944, 2048, 1})
    ->Args({10944, 2048, 512});

// V2-Lite: hidden 2048, 64 experts of 1408, 6 a token, a shared network of 2816.
void BM_Moe(benchmark::State& state) {
  const int64_t m = state.range(0), hidden = 2048, inner = 1408;
  constexpr size_t kExperts = 64;
  std::vector<std::unique_ptr<Weights>> memory;
  const auto network = [&](int64_t size) {
    memory.push_back(std::make_unique<Weights>(WeightFormat::kBF16, size, hidden));
    memory.push_back(std::make_unique<Weights>(WeightFormat::kBF16, size, hidden));
    memory.push_back(std::make_unique<Weights>(WeightFormat::kBF16, hidden, size));
    const size_t at = memory.size();
    return FfnWeights{memory[at - 3]->matrix, memory[at - 2]->matrix, memory[at - 1]->matrix};
  };
  std::vector<FfnWeights> experts;
  for (size_t e = 0; e < kExperts; ++e) experts.push_back(network(inner));
  const FfnWeights shared = network(2 * inner);
  const auto x = ones(m * hidden);
  auto y = ones(m * hidden);
  const auto weights = ones(m * 6);
  std::vector<int32_t> ids(static_cast<size_t>(m * 6));
  std::minstd_rand rng(1);
  double bytes = 0;
  for (auto _ : state) {
    std::vector<bool> used(kExperts);
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<int32_t>((i / 6 * 7 + i % 6 * 11 + rng() % 11) % kExperts);
      used[static_cast<size_t>(ids[i])] = true;
    }
    moe(bench().ctx, {.experts = experts,
                      .shared = &shared,
                      .x = x.data(),
                      .x_stride = hidden,
                      .ids = ids.data(),
                      .weights = weights.data(),
                      .slots = 6,
                      .y = y.data(),
                      .y_stride = hidden,
                      .m = m});
    bytes = static_cast<double>((std::count(used.begin(), used.end(), true) + 2) * 3 * inner *
                                hidden * 2);
  }
  report(state, bytes, static_cast<double>(m * 8 * 3 * inner * hidden * 2));
}
BENCHMARK(BM_Moe)->UseRealTime()->ArgName("m")->Arg(1)->Arg(4)->Arg(16)->Arg(512);

struct Shape {
  int64_t heads, kv_heads, key_dim, value_dim, value_offset;
};

// `rows` last rows of a sequence of `length` tokens.
void BM_Attention(benchmark::State& state, Shape s, DType dtype) {
  const int64_t length = state.range(0), rows = state.range(1);
  const int64_t width = std::max(s.kv_heads * s.key_dim, s.value_offset + s.kv_heads * s.value_dim);
  const int64_t entry = width * static_cast<int64_t>(dtype_size(dtype));
  constexpr int32_t kPage = 64;
  auto memory = HugeBuffer::allocate(static_cast<size_t>((length + kPage) * entry));
  std::vector<int32_t> pages, sequences(static_cast<size_t>(rows), 0), positions;
  for (int32_t i = 0; i * kPage < length; ++i) pages.push_back(i);
  for (int64_t i = length - rows; i < length; ++i) positions.push_back(static_cast<int32_t>(i));
  const int32_t* table = pages.data();
  const auto q = ones(rows * s.heads * s.key_dim);
  auto out = ones(rows * s.heads * s.value_dim);
  const AttentionArgs args{.kv = {.base = memory->data(),
                                  .page_bytes = kPage * entry,
                                  .entry_bytes = entry,
                                  .page_size = kPage,
                                  .dtype = dtype},
                           .rows = {sequences, positions, {&table, 1}},
                           .q = q.data(),
                           .q_row_stride = s.heads * s.key_dim,
                           .q_head_stride = s.key_dim,
                           .out = out.data(),
                           .out_row_stride = s.heads * s.value_dim,
                           .out_head_stride = s.value_dim,
                           .heads = s.heads,
                           .kv_heads = s.kv_heads,
                           .key_dim = s.key_dim,
                           .value_dim = s.value_dim,
                           .value_offset = s.value_offset};
  for (auto _ : state) attention(bench().ctx, args);
  double pairs = 0;
  for (int32_t p : positions) pairs += static_cast<double>(p + 1) * static_cast<double>(s.heads);
  report(state, static_cast<double>(length * entry),
         2 * pairs * static_cast<double>(s.key_dim + s.value_dim));
}
void contexts(benchmark::internal::Benchmark* b) {
  b->UseRealTime()
      ->ArgNames({"length", "rows"})
      ->Args({1024, 1})
      ->Args({16384, 1})
      ->Args({512, 512});
}
constexpr Shape kMla{16, 1, 576, 512, 0};
constexpr Shape kMha{16, 16, 128, 128, 16 * 128};
constexpr Shape kGqa{32, 8, 128, 128, 8 * 128};
BENCHMARK_CAPTURE(BM_Attention, mla_f32, kMla, DType::kF32)->Apply(contexts);
BENCHMARK_CAPTURE(BM_Attention, mla_bf16, kMla, DType::kBF16)->Apply(contexts);
BENCHMARK_CAPTURE(BM_Attention, mha_bf16, kMha, DType::kBF16)->Apply(contexts);
BENCHMARK_CAPTURE(BM_Attention, gqa_bf16, kGqa, DType::kBF16)->Apply(contexts);

void BM_PackRows(benchmark::State& state, WeightFormat format, DType dtype) {
  const Weights w(format, 2048, 4096);
  std::vector<std::byte> src(2048 * 4096 * dtype_size(dtype), std::byte{0x11});
  for (auto _ : state) {
    bench().pool.parallel_for(32, [&](int64_t unit, int) {
      benchmark::DoNotOptimize(pack_rows(w.matrix, unit * 64, 64,
                                         src.data() + static_cast<size_t>(unit) * src.size() / 32,
                                         dtype));
    });
  }
  report(state, static_cast<double>(src.size()), 0);
}
BENCHMARK_CAPTURE(BM_PackRows, bf16, WeightFormat::kBF16, DType::kBF16)->UseRealTime();
BENCHMARK_CAPTURE(BM_PackRows, f32, WeightFormat::kF32, DType::kF32)->UseRealTime();
BENCHMARK_CAPTURE(BM_PackRows, f8, WeightFormat::kF8E4M3Block, DType::kF8E4M3)->UseRealTime();
BENCHMARK_CAPTURE(BM_PackRows, bf16_to_f32, WeightFormat::kF32, DType::kBF16)->UseRealTime();

}  // namespace
}  // namespace fathom::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const auto& b = fathom::kernels::bench();
  std::printf("%s, %d threads: read %.1f GB/s, fp32 FMA peak %.1f GFLOP/s\n",
              fathom::kernels::isa_name(b.ctx.isa()), b.pool.size(), b.bandwidth / 1e9,
              b.peak / 1e9);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
