// `fathom verify --reference`: prints how a model compares with a reference file.
#pragma once

#include <string>

#include "apps/options.h"

namespace fathom::apps {

// A line per check, or one JSON object. Returns an exit code: 1 if any check fails or nothing can
// be compared.
int verify_reference(const EngineFlags& flags, const std::string& reference, bool json);

}  // namespace fathom::apps
