// Tests of core: conversions, files, the thread pool.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>
#include <vector>

#include "core/dtype.h"
#include "core/file.h"
#include "core/thread_pool.h"

namespace fathom {
namespace {

TEST(DType, Bf16RoundsToNearestEven) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::nanf("")))));
}

TEST(DType, EveryBf16SurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = bf16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_bf16(value), bits);
  }
}

TEST(DType, F16KnownValues) {
  EXPECT_EQ(f16_to_float(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_float(0x7bff), 65504.0f);
  EXPECT_EQ(f16_to_float(0x0001), std::ldexp(1.0f, -24));
  EXPECT_EQ(f16_to_float(0xc000), -2.0f);
  EXPECT_TRUE(std::isinf(f16_to_float(0x7c00)));
  EXPECT_TRUE(std::isnan(f16_to_float(0x7e00)));
}

TEST(DType, F8KnownValues) {
  EXPECT_EQ(f8_e4m3_to_float(0x7e), 448.0f);
  EXPECT_EQ(f8_e4m3_to_float(0x38), 1.0f);
  EXPECT_EQ(f8_e4m3_to_float(0x01), std::ldexp(1.0f, -9));
  EXPECT_EQ(f8_e4m3_to_float(0x88), -std::ldexp(1.0f, -6));
  EXPECT_TRUE(std::isnan(f8_e4m3_to_float(0xff)));
  EXPECT_EQ(f8_e8m0_to_float(127), 1.0f);
  EXPECT_EQ(f8_e8m0_to_float(0), std::ldexp(1.0f, -127));
  EXPECT_TRUE(std::isnan(f8_e8m0_to_float(255)));
}

TEST(DType, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
  }
  EXPECT_FALSE(dtype_from_name("BF17").has_value());
}

TEST(File, ReadsAndNamesTheFileInErrors) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "fathom_file_test";
  std::ofstream(path) << "hello";
  auto file = File::open(path);
  ASSERT_TRUE(file) << file.error().message();
  char text[4] = {};
  EXPECT_TRUE(file->read_at(1, text, 4).ok());
  EXPECT_EQ(std::string(text, 4), "ello");
  const Status past = file->read_at(3, text, 4);
  EXPECT_EQ(past.code(), Code::kCorrupt);
  EXPECT_NE(past.message().find("fathom_file_test"), std::string::npos);
  EXPECT_EQ(File::open(path / "no").error().code(), Code::kNotFound);
  EXPECT_FALSE(File::open(testing::TempDir()));  // a folder is not a file
  EXPECT_FALSE(read_text_file(path, 4));
}

TEST(HugeBuffer, IsZeroedAndAligned) {
  auto buffer = HugeBuffer::allocate(3 << 20);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % (2 << 20), 0u);
  EXPECT_EQ(buffer->data()[(3 << 20) - 1], std::byte{0});
  EXPECT_FALSE(HugeBuffer::allocate(~size_t{0}));
}

TEST(ThreadPool, RunsEveryUnitOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t units : {0, 1, 2, 3, 64, 1000}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<std::atomic<int>> runs(static_cast<size_t>(units));
        pool.parallel_for(units, [&](int64_t unit, int worker) {
          ASSERT_LT(worker, threads);
          runs[static_cast<size_t>(unit)].fetch_add(1);
        });
        for (auto& count : runs) ASSERT_EQ(count.load(), 1);
      }
    }
  }
}

// Back-to-back loops of a few tiny units with plain (unsynchronised) results: late workers meet the
// next loop all the time. Under ThreadSanitizer this checks the hand-over itself.
TEST(ThreadPool, LateWorkersNeverRunAUnitOfAnotherLoop) {
  ThreadPool pool(4);
  for (int64_t loop = 0; loop < 20000; ++loop) {
    const int64_t units = 2 + loop % 5;
    int64_t marks[6] = {};
    pool.parallel_for(units, [&marks, loop](int64_t unit, int) { marks[unit] += loop + 1; });
    for (int64_t unit = 0; unit < 6; ++unit) ASSERT_EQ(marks[unit], unit < units ? loop + 1 : 0);
  }
}

TEST(ThreadPool, WakesWorkersThatSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // past the spinning
    // Two units that wait for each other: both threads must run.
    std::atomic<int> started{0};
    pool.parallel_for(2, [&](int64_t, int) {
      started.fetch_add(1);
      while (started.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(started.load(), 2);
  }
}

}  // namespace
}  // namespace fathom
