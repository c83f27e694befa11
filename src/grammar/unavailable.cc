// The grammar backend of builds without xgrammar.
#if !FATHOM_HAVE_XGRAMMAR

#include "grammar/backend.h"
#include "grammar/grammar.h"

namespace fathom {

bool structured_output_available() {
  return false;
}

Result<std::unique_ptr<GrammarBackend>> GrammarBackend::create(std::shared_ptr<const Vocabulary>) {
  return error(Code::kUnsupported,
               "This build of fathom has no structured output: xgrammar's source could not be "
               "fetched when it was built. Build it again where pip reaches a package index.");
}

}  // namespace fathom

#endif
