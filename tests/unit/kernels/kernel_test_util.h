// Shared by the kernel tests: hostile data, every context, bit comparison, packed matrices.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/file.h"
#include "kernels/api/context.h"
#include "kernels/api/linear.h"

namespace fathom::kernels {

enum class Data { kNormal, kWide, kCancel, kSubnormal, kExtreme };
constexpr Data kAllData[] = {Data::kNormal, Data::kWide, Data::kCancel, Data::kSubnormal,
                             Data::kExtreme};

using Rng = std::mt19937_64;

inline float draw(Data kind, Rng& rng) {
  std::normal_distribution<float> normal;
  const float x = normal(rng);
  switch (kind) {
    case Data::kNormal:
      return x;
    case Data::kWide:
      return std::ldexp(x, static_cast<int>(rng() % 120) - 60);
    case Data::kCancel:
      return (rng() & 1 ? 1.0f : -1.0f) * (1e6f + x);
    case Data::kSubnormal:
      return std::ldexp(x, -127 - static_cast<int>(rng() % 20));
    case Data::kExtreme:
      switch (rng() % 16) {
        case 0:
          return std::numeric_limits<float>::infinity();
        case 1:
          return -std::numeric_limits<float>::infinity();
        case 2:
          return std::numeric_limits<float>::quiet_NaN();
        case 3:
          return 3e38f;
        case 4:
          return -0.0f;
        default:
          return x;
      }
  }
  return x;
}
inline std::vector<float> random_floats(size_t n, Data kind, Rng& rng) {
  std::vector<float> out(n);
  for (float& x : out) x = draw(kind, rng);
  return out;
}

// Bits equal, any NaN being equal to any other (payloads are not promised).
inline bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}
inline testing::AssertionResult same_rows(const float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!same_bits(a[i], b[i])) {
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionSuccess();
}
inline testing::AssertionResult same_rows(const std::vector<float>& a,
                                          const std::vector<float>& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << "sizes differ";
  return same_rows(a.data(), b.data(), static_cast<int64_t>(a.size()));
}

// A thread pool and a context on it.
struct Machine {
  ThreadPool pool;
  KernelContext ctx;
  Machine(int threads, Isa isa) : pool(threads), ctx(&pool, isa) {}
  std::string name() const {
    return std::string(isa_name(ctx.isa())) + " on " + std::to_string(pool.size()) + " threads";
  }
};
inline KernelContext& oracle() {  // one thread, portable code
  static Machine machine(1, Isa::kScalar);
  return machine.ctx;
}
// Every supported instruction set with 1, 2 and 3 threads; the slow oracle with 2 only.
inline std::vector<std::unique_ptr<Machine>> all_machines() {
  std::vector<std::unique_ptr<Machine>> out;
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (!isa_supported(isa)) continue;
    for (int threads : {1, 2, 3}) {
      if (isa == Isa::kScalar && threads != 2) continue;
      out.push_back(std::make_unique<Machine>(threads, isa));
    }
  }
  return out;
}

// W [n, k] as stored bytes, packed, and widened for reference.
struct TestMatrix {
  WeightFormat format;
  int64_t n, k;
  std::vector<std::byte> stored;  // row-major
  std::vector<float> values;      // [n, k], without scales
  std::vector<float> scales;      // kF8E4M3Block
  HugeBuffer memory;
  PackedMatrix packed;

  TestMatrix(WeightFormat f, int64_t rows, int64_t columns, Data kind, Rng& rng)
      : format(f), n(rows), k(columns) {
    const size_t size = dtype_size(dtype());
    stored.resize(static_cast<size_t>(n * k) * size);
    values.resize(static_cast<size_t>(n * k));
    for (size_t i = 0; i < values.size(); ++i) set(i, draw(kind, rng), rng);
    const int64_t blocks = (n + 127) / 128 * ((k + 127) / 128);
    if (f == WeightFormat::kF8E4M3Block) {
      scales = random_floats(static_cast<size_t>(blocks), Data::kNormal, rng);
    }
    memory = std::move(*HugeBuffer::allocate(*packed_bytes(f, n, k) + 64));
    packed = {f, n, k, memory.data(), scales.empty() ? nullptr : scales.data()};
    EXPECT_TRUE(pack_rows(packed, 0, n, stored.data(), dtype()).ok());
  }
  DType dtype() const {
    switch (format) {
      case WeightFormat::kF16:
        return DType::kF16;
      case WeightFormat::kBF16:
        return DType::kBF16;
      case WeightFormat::kF8E4M3Block:
        return DType::kF8E4M3;
      default:
        return DType::kF32;
    }
  }
  void set(size_t i, float value, Rng& rng) {
    uint16_t half = 0;
    switch (format) {
      case WeightFormat::kF32:
        std::memcpy(stored.data() + 4 * i, &value, 4);
        values[i] = value;
        return;
      case WeightFormat::kBF16:
        half = float_to_bf16(value);
        values[i] = bf16_to_float(half);
        break;
      case WeightFormat::kF16:  // any bits but infinity and NaN, subnormals included
        half = static_cast<uint16_t>(rng() & 0xbbff);
        values[i] = f16_to_float(half);
        break;
      case WeightFormat::kF8E4M3Block: {
        uint8_t byte = static_cast<uint8_t>(rng());
        if ((byte & 0x7f) == 0x7f) byte ^= 1;
        stored[i] = std::byte{byte};
        values[i] = f8_e4m3_to_float(byte);
        return;
      }
    }
    std::memcpy(stored.data() + 2 * i, &half, 2);
  }
};

constexpr WeightFormat kAllFormats[] = {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16,
                                        WeightFormat::kF8E4M3Block};

}  // namespace fathom::kernels
