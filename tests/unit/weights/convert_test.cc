// Every code of the 8- and 16-bit types against arithmetic written another way.
#include "weights/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace fathom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The value of a code by the definition of a binary floating-point format.
double decode(unsigned code, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const unsigned mantissa_mask = (1u << mantissa_bits) - 1;
  const unsigned exponent_mask = (1u << exponent_bits) - 1;
  const unsigned mantissa = code & mantissa_mask;
  const unsigned exponent = code >> mantissa_bits & exponent_mask;
  const double sign = code >> (mantissa_bits + exponent_bits) ? -1.0 : 1.0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (has_infinity && exponent == exponent_mask) return mantissa == 0 ? sign * kInfinity : kNan;
  if (!has_infinity && exponent == exponent_mask && mantissa == mantissa_mask) return kNan;
  const double fraction = mantissa / std::pow(2.0, mantissa_bits);
  return exponent == 0 ? sign * fraction * std::pow(2.0, 1 - bias)
                       : sign * (1.0 + fraction) * std::pow(2.0, static_cast<int>(exponent) - bias);
}

void expect_same(float actual, double expected, unsigned code) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << code;
    return;
  }
  EXPECT_EQ(static_cast<double>(actual), expected) << code;
  EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << code;
}

template <typename Code>
std::vector<float> convert_every_code(DType dtype) {
  std::vector<Code> codes(size_t{1} << (8 * sizeof(Code)));
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<Code>(i);
  std::vector<float> values(codes.size());
  to_float(dtype, codes.data(), values.data(), codes.size());
  return values;
}

TEST(ToFloat, EveryHalf) {
  const auto values = convert_every_code<uint16_t>(DType::kF16);
  for (unsigned code = 0; code < values.size(); ++code)
    expect_same(values[code], decode(code, 5, 10, true), code);
}

TEST(ToFloat, EveryBfloat16) {
  const auto values = convert_every_code<uint16_t>(DType::kBF16);
  for (unsigned code = 0; code < values.size(); ++code)
    expect_same(values[code], decode(code, 8, 7, true), code);
}

TEST(ToFloat, EveryE4m3) {
  const auto values = convert_every_code<uint8_t>(DType::kF8E4M3);
  for (unsigned code = 0; code < values.size(); ++code)
    expect_same(values[code], decode(code, 4, 3, false), code);
  EXPECT_EQ(values[0x7e], 448.0f);
}

TEST(ToFloat, EveryE5m2) {
  const auto values = convert_every_code<uint8_t>(DType::kF8E5M2);
  for (unsigned code = 0; code < values.size(); ++code)
    expect_same(values[code], decode(code, 5, 2, true), code);
}

TEST(ToFloat, EveryE8m0) {
  const auto values = convert_every_code<uint8_t>(DType::kF8E8M0);
  for (int code = 0; code < 255; ++code)
    EXPECT_EQ(values[static_cast<size_t>(code)], std::pow(2.0, code - 127));
  EXPECT_TRUE(std::isnan(values[255]));
}

template <typename T>
float convert_one(DType dtype, T value) {
  float result = -1;
  to_float(dtype, &value, &result, 1);
  return result;
}

TEST(ToFloat, IntegersAndWideTypes) {
  EXPECT_EQ(convert_one<int8_t>(DType::kI8, -128), -128.0f);
  EXPECT_EQ(convert_one<uint8_t>(DType::kU8, 255), 255.0f);
  EXPECT_EQ(convert_one<uint8_t>(DType::kBool, 1), 1.0f);
  EXPECT_EQ(convert_one<int16_t>(DType::kI16, -32768), -32768.0f);
  EXPECT_EQ(convert_one<int32_t>(DType::kI32, 16777217), 16777216.0f);  // ties to even
  EXPECT_EQ(convert_one<int64_t>(DType::kI64, int64_t{1} << 62), std::ldexp(1.0f, 62));
  EXPECT_EQ(convert_one<double>(DType::kF64, 0.1), 0.1f);
  EXPECT_EQ(convert_one<float>(DType::kF32, 0.1f), 0.1f);
}

TEST(ToFloat, TakesUnalignedSourcesAndNothing) {
  std::vector<unsigned char> bytes(1 + 2 * 3);
  const uint16_t codes[] = {0x3f80, 0x4000, 0xc040};
  std::memcpy(bytes.data() + 1, codes, sizeof(codes));
  float values[3];
  to_float(DType::kBF16, bytes.data() + 1, values, 3);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 2.0f);
  EXPECT_EQ(values[2], -3.0f);
  to_float(DType::kBF16, nullptr, nullptr, 0);
}

}  // namespace
}  // namespace fathom
