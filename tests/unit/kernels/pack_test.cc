// Packing: any way of handing over the rows gives the same panels; bad requests are refused.
#include "kernel_test_util.h"

namespace fathom::kernels {
namespace {

std::vector<std::byte> bytes_of(const PackedMatrix& w) {
  const size_t size = *packed_bytes(w.format, w.n, w.k);
  return {w.data, w.data + size};
}

TEST(Pack, ChunksOfRowsInAnyOrderGiveTheSamePanels) {
  Rng rng(1);
  for (WeightFormat format : kAllFormats) {
    for (auto [n, k] : {std::pair<int64_t, int64_t>{200, 131}, {64, 512}, {1, 1}, {33, 70}}) {
      const TestMatrix w(format, n, k, Data::kNormal, rng);
      auto memory = HugeBuffer::allocate(*packed_bytes(format, n, k) + 64);
      const PackedMatrix copy{format, n, k, memory->data(), nullptr};
      std::vector<std::pair<int64_t, int64_t>> chunks;
      for (int64_t at = 0; at < n;) {
        const auto rows = std::min<int64_t>(n - at, 1 + static_cast<int64_t>(rng() % 50));
        chunks.emplace_back(at, rows);
        at += rows;
      }
      std::shuffle(chunks.begin(), chunks.end(), rng);
      const size_t row_bytes = static_cast<size_t>(k) * dtype_size(w.dtype());
      for (auto [first, rows] : chunks) {
        // A source at an odd address, as a safetensors file may have it.
        std::vector<std::byte> source(static_cast<size_t>(rows) * row_bytes + 1);
        std::memcpy(source.data() + 1, w.stored.data() + static_cast<size_t>(first) * row_bytes,
                    static_cast<size_t>(rows) * row_bytes);
        ASSERT_TRUE(pack_rows(copy, first, rows, source.data() + 1, w.dtype()).ok());
      }
      EXPECT_EQ(bytes_of(copy), bytes_of(w.packed));
    }
  }
}

TEST(Pack, ATransposedSourceGivesTheSamePanels) {
  Rng rng(2);
  for (WeightFormat format : kAllFormats) {
    const TestMatrix w(format, 83, 45, Data::kNormal, rng);
    const size_t size = dtype_size(w.dtype());
    std::vector<std::byte> transposed(w.stored.size());
    for (size_t j = 0; j < 83; ++j) {
      for (size_t i = 0; i < 45; ++i) {
        std::memcpy(transposed.data() + (i * 83 + j) * size, w.stored.data() + (j * 45 + i) * size,
                    size);
      }
    }
    auto memory = HugeBuffer::allocate(*packed_bytes(format, 83, 45) + 64);
    const PackedMatrix copy{format, 83, 45, memory->data(), nullptr};
    ASSERT_TRUE(
        pack_transposed_rows(copy, 20, 25, transposed.data() + 20 * 83 * size, w.dtype()).ok());
    ASSERT_TRUE(pack_transposed_rows(copy, 0, 20, transposed.data(), w.dtype()).ok());
    EXPECT_EQ(bytes_of(copy), bytes_of(w.packed));
  }
}

TEST(Pack, WidensHalvesAndBytesIntoF32Exactly) {
  Rng rng(3);
  for (WeightFormat format :
       {WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kF8E4M3Block}) {
    const TestMatrix w(format, 90, 300, Data::kWide, rng);
    TestMatrix wide(WeightFormat::kF32, 90, 300, Data::kNormal, rng);
    ASSERT_TRUE(pack_rows(wide.packed, 0, 90, w.values.data(), DType::kF32).ok());
    auto memory = HugeBuffer::allocate(*packed_bytes(WeightFormat::kF32, 90, 300));
    const PackedMatrix copy{WeightFormat::kF32, 90, 300, memory->data(), nullptr};
    ASSERT_TRUE(pack_rows(copy, 0, 90, w.stored.data(), w.dtype()).ok());
    EXPECT_EQ(bytes_of(copy), bytes_of(wide.packed));
  }
}

TEST(Pack, RefusesWhatCannotBePacked) {
  Rng rng(4);
  const TestMatrix w(WeightFormat::kBF16, 20, 10, Data::kNormal, rng);
  EXPECT_EQ(pack_rows(w.packed, 15, 6, w.stored.data(), DType::kBF16).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(pack_rows(w.packed, -1, 2, w.stored.data(), DType::kBF16).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(pack_rows(w.packed, 0, 2, w.stored.data(), DType::kF32).code(), Code::kInvalidArgument);
  EXPECT_FALSE(packed_format(DType::kI8));
  EXPECT_FALSE(packed_bytes(WeightFormat::kF32, -1, 4));
  EXPECT_FALSE(packed_bytes(WeightFormat::kF32, int64_t{1} << 40, int64_t{1} << 40));
  EXPECT_EQ(*packed_bytes(WeightFormat::kBF16, 17, 3), 32u * 4 * 2);
}

TEST(Pack, EveryE4M3ByteIsWidenedExactly) {
  // One row per byte value, times one: the product is the value itself, NaN included.
  std::vector<uint8_t> bytes(256);
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
  const std::vector<float> scales(2, 1.0f);
  auto memory = HugeBuffer::allocate(*packed_bytes(WeightFormat::kF8E4M3Block, 256, 1));
  const PackedMatrix w{WeightFormat::kF8E4M3Block, 256, 1, memory->data(), scales.data()};
  ASSERT_TRUE(pack_rows(w, 0, 256, bytes.data(), DType::kF8E4M3).ok());
  const std::vector<float> x(7, 1.0f);
  for (const auto& machine : all_machines()) {
    for (int64_t m : {1, 7}) {
      std::vector<float> y(static_cast<size_t>(m) * 256);
      linear(machine->ctx,
             {.w = &w, .x = x.data(), .x_stride = 1, .y = y.data(), .y_stride = 256, .m = m});
      for (size_t i = 0; i < y.size(); ++i) {
        const float want = f8_e4m3_to_float(static_cast<uint8_t>(i % 256)) + 0.0f;
        ASSERT_TRUE(same_bits(y[i], want)) << machine->name() << " byte " << i % 256;
      }
    }
  }
}

}  // namespace
}  // namespace fathom::kernels
