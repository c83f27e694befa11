// Name resolution: decides, before anything runs, which variable each name means.
#pragma once

#include "text/jinja/ast.h"

namespace fathom::jinja {

// Fills every Slot and ScopeLayout of `ast` by Jinja's rules: loops, macros, call, filter, set and
// with blocks have scopes of their own, ifs have not; a name a scope sets is that scope's own from
// its begin on. Throws Failure for unknown filters and tests that are sure to be reached, and for
// assignments to `loop` inside a loop.
void resolve_names(Ast& ast);

}  // namespace fathom::jinja
