// Matrix products: the contract written out, bit equality across batches, threads and instruction
// sets, and the double-precision truth.
#include "kernels/api/linear.h"

#include "kernel_test_util.h"

namespace fathom::kernels {
namespace {

// The contract of linear.h, word for word.
float contract(const TestMatrix& w, const float* x, int64_t j) {
  const int64_t segment = w.format == WeightFormat::kF8E4M3Block ? 128 : 512;
  float total = 0.0f;
  for (int64_t k0 = 0; k0 < w.k; k0 += segment) {
    float s = 0.0f;
    for (int64_t k = k0; k < std::min(w.k, k0 + segment); ++k) {
      s = std::fma(x[k], w.values[static_cast<size_t>(j * w.k + k)], s);
    }
    if (!w.scales.empty()) {
      const int64_t columns = (w.k + 127) / 128;
      total = std::fma(s, w.scales[static_cast<size_t>(j / 128 * columns + k0 / 128)], total);
    } else {
      total = k0 == 0 ? s : total + s;
    }
  }
  return total;
}

std::vector<float> product(KernelContext& ctx, const TestMatrix& w, const float* x, int64_t m,
                           const float* bias = nullptr, const float* residual = nullptr) {
  std::vector<float> y(static_cast<size_t>(m * w.n), -7.0f);
  linear(ctx, {.w = &w.packed,
               .x = x,
               .x_stride = w.k,
               .y = y.data(),
               .y_stride = w.n,
               .m = m,
               .bias = bias,
               .residual = residual,
               .residual_stride = w.n});
  return y;
}

struct Shape {
  int64_t n, k;
};
constexpr Shape kShapes[] = {{1, 1},    {3, 7},     {16, 16},  {17, 127},  {64, 64},
                             {65, 129}, {100, 513}, {130, 96}, {192, 640}, {48, 1100}};

TEST(Linear, FollowsItsContractOnEveryInstructionSet) {
  Rng rng(1);
  for (WeightFormat format : kAllFormats) {
    for (Data kind : kAllData) {
      for (const Shape& shape : kShapes) {
        const TestMatrix w(format, shape.n, shape.k, kind, rng);
        for (int64_t m : {1, 5}) {
          const auto x = random_floats(static_cast<size_t>(m * w.k), kind, rng);
          std::vector<float> want;
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < w.n; ++j) want.push_back(contract(w, x.data() + i * w.k, j));
          }
          for (const auto& machine : all_machines()) {
            ASSERT_TRUE(same_rows(product(machine->ctx, w, x.data(), m), want))
                << machine->name() << ", format " << static_cast<int>(format) << ", n " << w.n
                << ", k " << w.k << ", m " << m << ", data " << static_cast<int>(kind);
          }
        }
      }
    }
  }
}

TEST(Linear, ARowHasTheSameBitsInEveryBatch) {
  Rng rng(2);
  for (WeightFormat format : kAllFormats) {
    const TestMatrix w(format, 150, 600, Data::kNormal, rng);
    const auto row = random_floats(static_cast<size_t>(w.k), Data::kNormal, rng);
    const auto alone = product(oracle(), w, row.data(), 1);
    for (const auto& machine : all_machines()) {
      for (int64_t m : {1, 2, 3, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 127, 128, 129, 300}) {
        if (machine->ctx.isa() == Isa::kScalar && m > 33) continue;
        auto x = random_floats(static_cast<size_t>(m * w.k),
                               rng() % 2 ? Data::kExtreme : Data::kWide, rng);
        const auto at = static_cast<int64_t>(rng() % static_cast<uint64_t>(m));
        std::copy(row.begin(), row.end(), x.begin() + at * w.k);
        const auto y = product(machine->ctx, w, x.data(), m);
        ASSERT_TRUE(same_rows(y.data() + at * w.n, alone.data(), w.n))
            << machine->name() << ", m " << m << ", row " << at;
      }
    }
  }
}

TEST(Linear, AddsBiasThenResidualInPlace) {
  Rng rng(3);
  const TestMatrix w(WeightFormat::kBF16, 70, 300, Data::kNormal, rng);
  constexpr int64_t kRows = 9;
  const auto x = random_floats(kRows * 300, Data::kNormal, rng);
  const auto bias = random_floats(70, Data::kNormal, rng);
  const auto residual = random_floats(kRows * 70, Data::kNormal, rng);
  const auto plain = product(oracle(), w, x.data(), kRows);
  for (const auto& machine : all_machines()) {
    const auto both = product(machine->ctx, w, x.data(), kRows, bias.data(), residual.data());
    auto in_place = residual;
    linear(machine->ctx, {.w = &w.packed,
                          .x = x.data(),
                          .x_stride = 300,
                          .y = in_place.data(),
                          .y_stride = 70,
                          .m = kRows,
                          .bias = bias.data(),
                          .residual = in_place.data(),
                          .residual_stride = 70});
    for (size_t i = 0; i < plain.size(); ++i) {
      const float want = residual[i] + (plain[i] + bias[i % 70]);
      ASSERT_TRUE(same_bits(both[i], want));
      ASSERT_TRUE(same_bits(in_place[i], want));
    }
  }
}

TEST(Linear, ManyTasksInOneRegionEqualSingleOnes) {
  Rng rng(4);
  std::vector<std::unique_ptr<TestMatrix>> w;
  for (int64_t n : {5, 64, 0, 200, 16}) {
    w.push_back(std::make_unique<TestMatrix>(WeightFormat::kBF16, n, 130, Data::kNormal, rng));
  }
  const auto x = random_floats(40 * 130, Data::kNormal, rng);
  for (const auto& machine : all_machines()) {
    std::vector<std::vector<float>> y(w.size());
    std::vector<LinearTask> tasks;
    for (size_t i = 0; i < w.size(); ++i) {
      const int64_t m = i == 1 ? 0 : static_cast<int64_t>(i) * 9 + 1;
      y[i].resize(static_cast<size_t>(m * w[i]->n));
      tasks.push_back({.w = &w[i]->packed,
                       .x = x.data(),
                       .x_stride = 130,
                       .y = y[i].data(),
                       .y_stride = w[i]->n,
                       .m = m});
    }
    linear_many(machine->ctx, tasks);
    for (size_t i = 0; i < w.size(); ++i) {
      ASSERT_TRUE(same_rows(y[i], product(oracle(), *w[i], x.data(), tasks[i].m)));
    }
  }
}

TEST(Linear, LeavesMemoryBetweenStridedRowsAlone) {
  Rng rng(5);
  const TestMatrix w(WeightFormat::kF32, 19, 33, Data::kNormal, rng);
  const auto x = random_floats(8 * 40, Data::kNormal, rng);
  for (const auto& machine : all_machines()) {
    std::vector<float> y(8 * 24, 42.0f);
    linear(machine->ctx,
           {.w = &w.packed, .x = x.data(), .x_stride = 40, .y = y.data(), .y_stride = 24, .m = 8});
    for (int64_t i = 0; i < 8; ++i) {
      const auto alone = product(oracle(), w, x.data() + i * 40, 1);
      ASSERT_TRUE(same_rows(y.data() + i * 24, alone.data(), 19));
      for (int64_t j = 19; j < 24; ++j) ASSERT_EQ(y[static_cast<size_t>(i * 24 + j)], 42.0f);
    }
  }
}

TEST(Linear, IsNearTheDoublePrecisionProduct) {
  Rng rng(6);
  for (WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) {
    const TestMatrix w(format, 90, 2000, Data::kNormal, rng);
    const auto x = random_floats(7 * 2000, Data::kNormal, rng);
    Machine machine(2, best_isa());
    const auto y = product(machine.ctx, w, x.data(), 7);
    for (int64_t i = 0; i < 7; ++i) {
      for (int64_t j = 0; j < w.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < w.k; ++k) {
          const double p = double{x[static_cast<size_t>(i * w.k + k)]} *
                           w.values[static_cast<size_t>(j * w.k + k)];
          sum += p;
          magnitude += std::abs(p);
        }
        ASSERT_NEAR(y[static_cast<size_t>(i * w.n + j)], sum, 1e-6 * magnitude);
      }
    }
  }
}

TEST(HeadLinear, MultipliesEachHeadByItsOwnMatrix) {
  Rng rng(7);
  std::vector<std::unique_ptr<TestMatrix>> w;
  std::vector<PackedMatrix> heads;
  for (int h = 0; h < 5; ++h) {
    w.push_back(std::make_unique<TestMatrix>(WeightFormat::kBF16, 72, 40, Data::kNormal, rng));
    heads.push_back(w.back()->packed);
  }
  for (int64_t m : {1, 4, 11}) {
    const auto x = random_floats(static_cast<size_t>(m * 5 * 40), Data::kNormal, rng);
    for (const auto& machine : all_machines()) {
      std::vector<float> y(static_cast<size_t>(m * 5 * 72));
      head_linear(machine->ctx, {.heads = heads,
                                 .x = x.data(),
                                 .x_row_stride = 200,
                                 .x_head_stride = 40,
                                 .y = y.data(),
                                 .y_row_stride = 360,
                                 .y_head_stride = 72,
                                 .m = m});
      for (int64_t i = 0; i < m; ++i) {
        for (size_t h = 0; h < 5; ++h) {
          const auto at = static_cast<int64_t>(h);
          const auto alone = product(oracle(), *w[h], x.data() + i * 200 + at * 40, 1);
          ASSERT_TRUE(same_rows(y.data() + i * 360 + at * 72, alone.data(), 72));
        }
      }
    }
  }
}

}  // namespace
}  // namespace fathom::kernels
