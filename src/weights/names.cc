// Banded edit distance, on names whose digit runs are first made alike.
#include "weights/names.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unordered_map>

namespace fathom {
namespace {

constexpr size_t kMaxCompared = 256;  // names beyond this length are not worth a suggestion

// "model.layers.17.mlp" -> "model.layers.#.mlp"
std::string without_numbers(std::string_view name) {
  std::string out;
  out.reserve(name.size());
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && !out.empty() && out.back() == '#') continue;
    out.push_back(digit ? '#' : c);
  }
  return out;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b, int limit) {
  const int rows = static_cast<int>(a.size());
  const int cols = static_cast<int>(b.size());
  if (std::abs(rows - cols) > limit) return limit + 1;
  const int far = limit + 1;
  std::vector<int> previous(b.size() + 1, far);
  std::vector<int> current(b.size() + 1, far);
  for (int j = 0; j <= std::min(cols, limit); ++j) previous[static_cast<size_t>(j)] = j;
  for (int i = 1; i <= rows; ++i) {
    const int first = std::max(0, i - limit);
    const int last = std::min(cols, i + limit);
    int best = far;
    if (first > 0) current[static_cast<size_t>(first) - 1] = far;
    for (int j = first; j <= last; ++j) {
      const auto at = static_cast<size_t>(j);
      int value = previous[at] + 1;  // a[i-1] is left out
      if (j == 0) {
        value = i;
      } else {
        const bool same = a[static_cast<size_t>(i) - 1] == b[at - 1];
        value = std::min({value, current[at - 1] + 1, previous[at - 1] + (same ? 0 : 1)});
      }
      current[at] = std::min(value, far);
      best = std::min(best, current[at]);
    }
    if (last < cols) current[static_cast<size_t>(last) + 1] = far;
    if (best > limit) return far;
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::optional<std::string> nearest_name(std::string_view name,
                                        const std::vector<std::string>& known) {
  if (name.empty() || name.size() > kMaxCompared) return std::nullopt;
  const std::string shape = without_numbers(name);
  const int limit = std::max(1, static_cast<int>(shape.size()) / 3);
  // Thousands of names have few shapes, so the costly comparison runs once per shape.
  std::unordered_map<std::string, int> distances;
  int best_shape = limit + 1;
  int best = 0;
  const std::string* nearest = nullptr;
  for (const std::string& candidate : known) {
    if (candidate.size() > kMaxCompared || candidate == name) continue;
    const auto [entry, fresh] = distances.try_emplace(without_numbers(candidate), 0);
    if (fresh) entry->second = edit_distance(shape, entry->first, limit);
    if (entry->second > std::min(best_shape, limit)) continue;
    const int exact = edit_distance(name, candidate, static_cast<int>(kMaxCompared));
    if (entry->second < best_shape || exact < best) {
      best_shape = entry->second;
      best = exact;
      nearest = &candidate;
    }
  }
  if (nearest == nullptr) return std::nullopt;
  return *nearest;
}

}  // namespace fathom
