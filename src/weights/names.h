// Finds the known name that is nearest to an unknown one, for "did you mean" messages.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// Edit distance (insert, delete, replace one byte), or limit + 1 if it exceeds `limit`.
// O(limit * length) time.
int edit_distance(std::string_view a, std::string_view b, int limit);

// The nearest of `known`, the first of equals; nothing if none is nearer than about a third of the
// name's length. Layer numbers count for little: model.layers.3.x finds model.layers.17.x.
std::optional<std::string> nearest_name(std::string_view name,
                                        const std::vector<std::string>& known);

}  // namespace fathom
