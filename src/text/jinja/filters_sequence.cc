// Filters over sequences and mappings: order, grouping, picking.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

AttributePath::AttributePath(Runtime& runtime, const Value& attribute) {
  if (attribute.is_none()) return;
  if (!attribute.is_string()) {
    parts_.push_back(attribute);
    depth_ = attribute.depth();
    return;
  }
  std::string_view rest = attribute.text();
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string part(rest.substr(0, dot));
    const bool number = !part.empty() && part.size() < 18 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    runtime.push(parts_, number ? Value::integer(std::stoll(part)) : runtime.string(part));
    if (dot == rest.size()) return;
    rest.remove_prefix(dot + 1);
  }
}

Value AttributePath::get(Runtime& runtime, Value item, const Value& otherwise) const {
  for (const Value& part : parts_) {
    runtime.step();
    item = get_item(runtime, item, part);
    if (item.undefined() && !otherwise.missing() && !otherwise.is_none()) item = otherwise;
  }
  return item;
}

Value sort_key(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  runtime.reserve(value.text().size() * 6);
  runtime.work(value.text().size() * 8);
  return runtime.string(to_lower(value.text()));
}

std::vector<Value> sorted_by(Runtime& runtime, const std::vector<Value>& items,
                             const std::vector<Value>& keys, bool reverse) {
  runtime.reserve(items.size() * (sizeof(size_t) + sizeof(Value)));
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  if (reverse) std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return less(runtime, keys[a], keys[b]); });
  if (reverse) std::reverse(order.begin(), order.end());
  std::vector<Value> out;
  out.reserve(items.size());
  for (size_t i : order) out.push_back(items[i]);
  return out;
}

namespace {

Value filter_list(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "list", args, {}, 0);
  return runtime.list(to_vector(runtime, subject));
}

Value filter_first(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "first", args, {}, 0);
  Value item;
  if (iterate(runtime, subject)->next(runtime, item)) return item;
  return runtime.undefined("No first item, sequence was empty.");
}

Value filter_last(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "last", args, {}, 0);
  const Value backwards = reversed(runtime, subject);
  if (backwards.missing()) {
    runtime.type_error(std::string("'") + type_name(subject) + "' object is not reversible");
  }
  Value item;
  if (backwards.as<IteratorObject>().next(runtime, item)) return item;
  return runtime.undefined("No last item, sequence was empty.");
}

Value filter_reverse(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "reverse", args, {}, 0);
  if (subject.is_string()) {
    return slice(runtime, subject, Value(), Value(), Value::integer(-1));
  }
  const Value backwards = reversed(runtime, subject);
  if (!backwards.missing()) return backwards;
  if (!iterable(subject)) runtime.fail(FailureKind::kRuntime, "argument must be iterable");
  std::vector<Value> items = to_vector(runtime, subject);
  std::reverse(items.begin(), items.end());
  return runtime.list(std::move(items));
}

Value filter_items(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "items", args, {}, 0);
  return make_generator(runtime, subject.depth() + 1,
                        [subject, index = size_t{0}](Runtime& rt, Value& out) mutable {
                          if (subject.undefined()) return false;
                          if (!subject.is(Type::kDict)) {
                            rt.type_error("Can only get item pairs from a mapping.");
                          }
                          const auto& entries = subject.dict().entries;
                          if (index >= entries.size()) return false;
                          out = rt.pair(entries[index].first, entries[index].second);
                          ++index;
                          return true;
                        });
}

Value filter_dictsort(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "dictsort", args, {"case_sensitive", "by", "reverse"}, 0);
  const std::string by = bound[1].missing() ? "key" : str(runtime, bound[1]);
  if (by != "key" && by != "value") {
    runtime.fail(FailureKind::kRuntime, "You can only sort by either \"key\" or \"value\"");
  }
  runtime.require_defined(subject);
  if (!subject.is(Type::kDict)) {
    runtime.fail(FailureKind::kAttribute,
                 std::string("'") + type_name(subject) + "' object has no attribute 'items'");
  }
  std::vector<Value> items, keys;
  for (const auto& [key, value] : subject.dict().entries) {
    runtime.push(items, runtime.pair(key, value));
    runtime.push(keys, sort_key(runtime, by == "key" ? key : value, truthy(bound[0])));
  }
  return runtime.list(sorted_by(runtime, items, keys, truthy(bound[2])));
}

Value filter_sort(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "sort", args, {"reverse", "case_sensitive", "attribute"}, 0);
  std::vector<AttributePath> paths;
  if (bound[2].is_string()) {
    std::string_view rest = bound[2].text();
    while (true) {
      const size_t comma = std::min(rest.find(','), rest.size());
      runtime.step();
      paths.emplace_back(runtime, runtime.string(std::string(rest.substr(0, comma))));
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    paths.emplace_back(runtime, bound[2].missing() ? Value::none() : bound[2]);
  }
  const std::vector<Value> items = to_vector(runtime, subject);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      runtime.push(key, sort_key(runtime, path.get(runtime, item), truthy(bound[1])));
    }
    runtime.push(keys, runtime.list(std::move(key)));
  }
  return runtime.list(sorted_by(runtime, items, keys, truthy(bound[0])));
}

Value filter_unique(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "unique", args, {"case_sensitive", "attribute"}, 0);
  struct State {
    State(AttributePath p, bool sensitive, Value s)
        : path(std::move(p)), case_sensitive(sensitive), subject(std::move(s)) {}
    AttributePath path;
    bool case_sensitive;
    Value subject;
    std::shared_ptr<IteratorObject> items;
    DictObject seen;
  };
  auto state =
      std::make_shared<State>(AttributePath(runtime, bound[1].missing() ? Value::none() : bound[1]),
                              truthy(bound[0]), subject);
  return make_generator(runtime, subject.depth(), [state](Runtime& rt, Value& out) {
    if (state->items == nullptr) state->items = iterate(rt, state->subject);
    while (state->items->next(rt, out)) {
      Value key = sort_key(rt, state->path.get(rt, out), state->case_sensitive);
      if (!hashable(key)) {
        rt.type_error(std::string("unhashable type: '") + type_name(key) + "'");
      }
      if (state->seen.find(key) != nullptr) continue;
      rt.reserve(4 * sizeof(Value));
      state->seen.set(std::move(key), Value::none());
      return true;
    }
    return false;
  });
}

Value extreme(Runtime& runtime, const Value& subject, const Args& args, bool largest) {
  const Bound bound =
      bind(runtime, largest ? "max" : "min", args, {"case_sensitive", "attribute"}, 0);
  const AttributePath path(runtime, bound[1].missing() ? Value::none() : bound[1]);
  Value best, best_key;
  for_each(runtime, subject, [&](const Value& item) {
    Value key = sort_key(runtime, path.get(runtime, item), truthy(bound[0]));
    const bool better =
        best.missing() || compare(runtime, largest ? Op::kGt : Op::kLt, key, best_key);
    if (!better) return;
    best = item;
    best_key = std::move(key);
  });
  if (!best.missing()) return best;
  return runtime.undefined("No aggregated item, sequence was empty.");
}

Value filter_min(Runtime& runtime, const Value& subject, const Args& args) {
  return extreme(runtime, subject, args, false);
}
Value filter_max(Runtime& runtime, const Value& subject, const Args& args) {
  return extreme(runtime, subject, args, true);
}

Value filter_sum(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "sum", args, {"attribute", "start"}, 0);
  const AttributePath path(runtime, bound[0].missing() ? Value::none() : bound[0]);
  Value total = bound[1].missing() ? Value::integer(0) : bound[1];
  if (total.is_string()) runtime.type_error("sum() can't sum strings [use ''.join(seq) instead]");
  for_each(runtime, subject, [&](const Value& item) {
    total = arithmetic(runtime, Op::kAdd, total, path.get(runtime, item));
  });
  return total;
}

Value filter_batch(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "batch", args, {"linecount", "fill_with"}, 1);
  const int64_t size = index_argument(runtime, bound[0]);
  const Value fill = bound[1].missing() ? Value::none() : bound[1];
  std::vector<Value> out, row;
  for_each(runtime, subject, [&](const Value& item) {
    if (static_cast<int64_t>(row.size()) == size) {
      runtime.push(out, runtime.list(std::exchange(row, {})));
    }
    runtime.push(row, item);
  });
  if (!row.empty()) {
    while (!fill.is_none() && static_cast<int64_t>(row.size()) < size) runtime.push(row, fill);
    runtime.push(out, runtime.list(std::move(row)));
  }
  return Value(Type::kIterator, iterate(runtime, runtime.list(std::move(out))));
}

Value filter_slice(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "slice", args, {"slices", "fill_with"}, 1);
  const int64_t slices = index_argument(runtime, bound[0]);
  const Value fill = bound[1].missing() ? Value::none() : bound[1];
  const std::vector<Value> items = to_vector(runtime, subject);
  if (slices == 0) {
    runtime.fail(FailureKind::kZeroDivision, "integer division or modulo by zero");
  }
  std::vector<Value> out;
  const auto length = static_cast<int64_t>(items.size());
  int64_t offset = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t extra = length % slices;
    const int64_t start = offset + i * (length / slices);
    if (i < extra) ++offset;
    const int64_t end = offset + (i + 1) * (length / slices);
    std::vector<Value> row;
    for (int64_t k = start; k < end; ++k) runtime.push(row, items[static_cast<size_t>(k)]);
    if (!fill.is_none() && i >= extra) runtime.push(row, fill);
    runtime.push(out, runtime.list(std::move(row)));
  }
  return Value(Type::kIterator, iterate(runtime, runtime.list(std::move(out))));
}

Value filter_groupby(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(runtime, bound[0]);
  const std::vector<Value> items = to_vector(runtime, subject);
  std::vector<Value> keys, pairs;
  for (const Value& item : items) {
    runtime.push(keys, sort_key(runtime, path.get(runtime, item, bound[1]), truthy(bound[2])));
    runtime.push(pairs, runtime.pair(keys.back(), item));
  }
  std::vector<Value> groups, group;
  Value key;
  const auto flush = [&] {
    if (group.empty()) return;
    const Value shown = truthy(bound[2]) ? key : path.get(runtime, group[0], bound[1]);
    runtime.push(groups, runtime.pair(shown, runtime.list(std::exchange(group, {}))));
  };
  for (const Value& pair : sorted_by(runtime, pairs, keys, false)) {
    if (key.missing() || !equal(key, pair.items()[0])) {
      flush();
      key = pair.items()[0];
    }
    runtime.push(group, pair.items()[1]);
  }
  flush();
  return runtime.list(std::move(groups));
}

constexpr NamedFunction kFilters[] = {
    {"batch", filter_batch},     {"dictsort", filter_dictsort}, {"first", filter_first},
    {"groupby", filter_groupby}, {"items", filter_items},       {"last", filter_last},
    {"list", filter_list},       {"max", filter_max},           {"min", filter_min},
    {"reverse", filter_reverse}, {"slice", filter_slice},       {"sort", filter_sort},
    {"sum", filter_sum},         {"unique", filter_unique},
};

}  // namespace

Function find_sequence_filter(std::string_view name) {
  return find_named(std::begin(kFilters), std::end(kFilters), name);
}

}  // namespace fathom::jinja
