// Feed-forward networks: expert grouping against one row and one expert at a time.
#include "kernels/api/moe.h"

#include "kernel_test_util.h"
#include "kernels/api/elementwise.h"

namespace fathom::kernels {
namespace {

struct Network {
  TestMatrix gate, up, down;
  FfnWeights weights;
  Network(WeightFormat f, int64_t hidden, int64_t inner, Rng& rng)
      : gate(f, inner, hidden, Data::kNormal, rng),
        up(f, inner, hidden, Data::kNormal, rng),
        down(f, hidden, inner, Data::kNormal, rng),
        weights{gate.packed, up.packed, down.packed} {}
};

std::vector<float> multiply(const TestMatrix& w, const std::vector<float>& x) {
  std::vector<float> y(static_cast<size_t>(w.n));
  linear(oracle(),
         {.w = &w.packed, .x = x.data(), .x_stride = w.k, .y = y.data(), .y_stride = w.n, .m = 1});
  return y;
}
std::vector<float> one_row(const Network& net, const std::vector<float>& x) {
  auto h = multiply(net.gate, x);
  const auto up = multiply(net.up, x);
  silu_mul(oracle(), h.data(), up.data(), h.data(), net.gate.n);
  return multiply(net.down, h);
}

constexpr int64_t kHidden = 88;
constexpr int64_t kSlots = 3;

TEST(Moe, EqualsOneRowAndOneExpertAtATime) {
  Rng rng(1);
  for (WeightFormat format :
       {WeightFormat::kBF16, WeightFormat::kF8E4M3Block, WeightFormat::kF32}) {
    std::vector<std::unique_ptr<Network>> nets;
    std::vector<FfnWeights> experts;
    for (int e = 0; e < 7; ++e) {
      nets.push_back(std::make_unique<Network>(format, kHidden, 72, rng));
      experts.push_back(nets.back()->weights);
    }
    const Network shared(format, kHidden, 144, rng);
    for (int64_t m : {1, 2, 3, 8, 9, 33, 129}) {
      const auto count = static_cast<size_t>(m);
      const auto x = random_floats(count * kHidden, Data::kNormal, rng);
      const auto residual = random_floats(count * kHidden, Data::kNormal, rng);
      const auto weights = random_floats(count * kSlots, Data::kNormal, rng);
      std::vector<int32_t> ids(count * kSlots);
      for (size_t i = 0; i < ids.size(); i += kSlots) {  // expert 4 never chosen, slots unsorted
        ids[i] = static_cast<int32_t>(rng() % 2) + 2;
        ids[i + 1] = static_cast<int32_t>(rng() % 2) + 5;
        ids[i + 2] = static_cast<int32_t>(rng() % 2);
      }
      std::vector<float> want;
      for (size_t i = 0; i < count; ++i) {
        const std::vector<float> row(x.begin() + static_cast<long>(i) * kHidden,
                                     x.begin() + static_cast<long>(i + 1) * kHidden);
        std::vector<std::vector<float>> d;
        for (size_t s = 0; s < kSlots; ++s) {
          d.push_back(one_row(*nets[static_cast<size_t>(ids[i * kSlots + s])], row));
        }
        const auto common = one_row(shared, row);
        for (size_t j = 0; j < kHidden; ++j) {
          float a = 0;
          for (size_t s = 0; s < kSlots; ++s) a = std::fma(weights[i * kSlots + s], d[s][j], a);
          want.push_back(residual[i * kHidden + j] + (a + common[j]));
        }
      }
      for (const auto& machine : all_machines()) {
        auto y = residual;
        moe(machine->ctx, {.experts = experts,
                           .shared = &shared.weights,
                           .x = x.data(),
                           .x_stride = kHidden,
                           .ids = ids.data(),
                           .weights = weights.data(),
                           .slots = kSlots,
                           .y = y.data(),
                           .y_stride = kHidden,
                           .residual = y.data(),
                           .residual_stride = kHidden,
                           .m = m});
        ASSERT_TRUE(same_rows(y, want)) << machine->name() << ", m " << m;
      }
    }
  }
}

TEST(Moe, WorksWithoutSharedNetworkAndResidual) {
  Rng rng(2);
  const Network net(WeightFormat::kBF16, kHidden, 40, rng);
  const std::vector<FfnWeights> experts(2, net.weights);
  const auto x = random_floats(kHidden, Data::kNormal, rng);
  const int32_t id = 1;
  const float weight = 0.5f;
  const auto d = one_row(net, x);
  for (const auto& machine : all_machines()) {
    std::vector<float> y(kHidden);
    moe(machine->ctx, {.experts = experts,
                       .x = x.data(),
                       .x_stride = kHidden,
                       .ids = &id,
                       .weights = &weight,
                       .slots = 1,
                       .y = y.data(),
                       .y_stride = kHidden,
                       .m = 1});
    for (size_t j = 0; j < kHidden; ++j) ASSERT_TRUE(same_bits(y[j], std::fma(0.5f, d[j], 0.0f)));
  }
}

TEST(Ffn, EqualsOneRowAtATime) {
  Rng rng(3);
  const Network net(WeightFormat::kBF16, kHidden, 200, rng);
  for (int64_t m : {1, 5, 40}) {
    const auto x = random_floats(static_cast<size_t>(m) * kHidden, Data::kNormal, rng);
    std::vector<float> want;
    for (int64_t i = 0; i < m; ++i) {
      const auto row = one_row(net, {x.begin() + i * kHidden, x.begin() + (i + 1) * kHidden});
      for (size_t j = 0; j < kHidden; ++j) want.push_back(2.0f + row[j]);
    }
    for (const auto& machine : all_machines()) {
      std::vector<float> y(x.size(), 2.0f);
      ffn(machine->ctx, {.weights = &net.weights,
                         .x = x.data(),
                         .x_stride = kHidden,
                         .y = y.data(),
                         .y_stride = kHidden,
                         .residual = y.data(),
                         .residual_stride = kHidden,
                         .m = m});
      ASSERT_TRUE(same_rows(y, want)) << machine->name();
    }
  }
}

}  // namespace
}  // namespace fathom::kernels
