// exp and log as fixed sequences of IEEE operations: the C library's differ between versions and
// processors, and a sampled token must not.
#pragma once

#include <bit>
#include <cstdint>

namespace fathom {

// e^x for x <= 709, to about one unit in the last place; 0 below -708 (no denormals).
inline double fixed_exp(double x) {
  if (x < -708) return 0;
  constexpr double kLog2e = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fefa3800p-1;  // 42 bits: k * kLn2High is exact
  constexpr double kLn2Low = 0x1.ef35793c76730p-45;
  constexpr double kRound = 0x1.8p52;  // adding and subtracting rounds to an integer
  const double k = (x * kLog2e + kRound) - kRound;
  const double r = (x - k * kLn2High) - k * kLn2Low;  // |r| <= ln(2) / 2
  // Taylor series to r^13 / 13!, whose remainder is below 1e-17.
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const uint64_t exponent = static_cast<uint64_t>(static_cast<int64_t>(k) + 1023) << 52;
  return sum * std::bit_cast<double>(exponent);
}

// ln(x) for normal x > 0, to about one unit in the last place.
inline double fixed_log(double x) {
  constexpr double kLn2High = 0x1.62e42fefa3800p-1;
  constexpr double kLn2Low = 0x1.ef35793c76730p-45;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);  // [1, 2)
  if (m > 0x1.6a09e667f3bcdp+0) {                                                         // sqrt(2)
    m *= 0.5;
    ++exponent;
  }
  // ln(m) = 2 artanh(s) with |s| < 0.1716.
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double sum = 1.0 / 23.0;
  for (int n = 21; n >= 3; n -= 2) sum = sum * s2 + 1.0 / n;
  const double k = static_cast<double>(exponent);
  return k * kLn2High + (2 * s + (2 * s * s2 * sum + k * kLn2Low));
}

}  // namespace fathom
