// Reads the user's lines: with editing and history on a terminal, plainly from a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/interrupt.h"

namespace fathom::apps {

// Owned and used by the main thread.
class LineEditor {
 public:
  // `interrupt` must outlive the editor: Ctrl-C at the prompt drops the line.
  LineEditor(std::string prompt, InterruptGuard& interrupt);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next line without its line end; nullopt at the end of input (Ctrl-D). The prompt is only
  // shown on a terminal.
  std::optional<std::string> next();

  struct Impl;  // public for libedit's callbacks

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::apps
