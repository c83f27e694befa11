// Python's iteration protocol: iterators over values, loops' state, helpers for filters.
#pragma once

#include <memory>
#include <vector>

#include "text/jinja/runtime.h"

namespace fathom::jinja {

bool iterable(const Value& value);
// iter(value); TypeError when it has none. An iterator yields itself.
std::shared_ptr<IteratorObject> iterate(Runtime& runtime, const Value& value);
std::vector<Value> to_vector(Runtime& runtime, const Value& value);  // list(value)
Value element_at(const Value& range, int64_t index);                 // of a range

// reversed(value): missing when `value` cannot be reversed.
Value reversed(Runtime& runtime, const Value& value);

// Calls visit(item) for each item; visit may throw.
template <typename Visit>
void for_each(Runtime& runtime, const Value& value, Visit&& visit) {
  const std::shared_ptr<IteratorObject> items = iterate(runtime, value);
  Value item;
  while (items->next(runtime, item)) visit(item);
}

// A generator from a callable bool(Runtime&, Value&), over values at most `depth` deep.
template <typename Next>
Value make_generator(Runtime& runtime, int depth, Next next) {
  struct Generator final : IteratorObject {
    explicit Generator(Next n) : produce(std::move(n)) {}
    bool next(Runtime& rt, Value& out) override {
      const DepthGuard guard(rt);
      rt.step();
      if (done) return false;
      if (!produce(rt, out)) done = true;
      return !done;
    }
    Next produce;
    bool done = false;
  };
  return Value(Type::kIterator, runtime.adopt(std::make_shared<Generator>(std::move(next)),
                                              sizeof(Generator) + 64, depth + 1));
}

}  // namespace fathom::jinja
