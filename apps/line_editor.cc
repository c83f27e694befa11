// Line editing and history through libedit; std::getline where there is no terminal.
#include "apps/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <iostream>

#include "apps/console.h"

namespace fathom::apps {

struct LineEditor::Impl {
  std::string prompt;
  InterruptGuard& interrupt;
  EditLine* edit = nullptr;
  History* history = nullptr;

  Impl(std::string prompt_text, InterruptGuard& guard)
      : prompt(std::move(prompt_text)), interrupt(guard) {}
};

namespace {

constexpr int kHistorySize = 1000;  // lines

char* prompt_of(EditLine* edit) {
  LineEditor::Impl* impl = nullptr;
  el_get(edit, EL_CLIENTDATA, &impl);
  return impl->prompt.data();
}

// libedit's own reader tries again after a signal; this one gives up, so that Ctrl-C is noticed.
int read_character(EditLine* edit, wchar_t* out) {
  LineEditor::Impl* impl = nullptr;
  el_get(edit, EL_CLIENTDATA, &impl);
  std::mbstate_t state{};
  while (true) {
    if (!impl->interrupt.wait_readable(STDIN_FILENO)) {
      errno = EINTR;
      return -1;
    }
    char byte = 0;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return static_cast<int>(count);
    const size_t used = std::mbrtowc(out, &byte, 1, &state);
    if (used == static_cast<size_t>(-2)) continue;  // inside a character
    if (used == static_cast<size_t>(-1)) {
      state = std::mbstate_t{};  // not UTF-8: drop it
      continue;
    }
    return 1;
  }
}

}  // namespace

LineEditor::LineEditor(std::string prompt, InterruptGuard& interrupt)
    : impl_(std::make_unique<Impl>(std::move(prompt), interrupt)) {
  if (!stdin_is_terminal() || !stdout_is_terminal()) return;
  // libedit counts columns of UTF-8 characters by the locale.
  const char* locale = std::setlocale(LC_CTYPE, "");
  if (locale == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  impl_->edit = el_init("fathom", stdin, stdout, stderr);
  if (impl_->edit == nullptr) return;
  el_set(impl_->edit, EL_CLIENTDATA, impl_.get());
  el_set(impl_->edit, EL_PROMPT, &prompt_of);
  el_set(impl_->edit, EL_EDITOR, "emacs");
  el_set(impl_->edit, EL_GETCFN, &read_character);
  impl_->history = history_init();
  if (impl_->history == nullptr) return;
  HistEvent event;
  history(impl_->history, &event, H_SETSIZE, kHistorySize);
  history(impl_->history, &event, H_SETUNIQUE, 1);
  el_set(impl_->edit, EL_HIST, &history, impl_->history);
}

LineEditor::~LineEditor() {
  if (impl_->history != nullptr) history_end(impl_->history);
  if (impl_->edit != nullptr) el_end(impl_->edit);
}

std::optional<std::string> LineEditor::next() {
  if (impl_->edit == nullptr) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return line;
  }
  while (true) {
    impl_->interrupt.clear();
    el_set(impl_->edit, EL_PREP_TERM, 1);  // before the prompt shows: no key is lost
    int count = 0;
    const char* text = el_gets(impl_->edit, &count);
    if (text != nullptr && count > 0) {
      std::string line(text, static_cast<size_t>(count));
      if (impl_->history != nullptr && line.find_first_not_of(" \t\n") != std::string::npos) {
        HistEvent event;
        history(impl_->history, &event, H_ENTER, line.c_str());
      }
      while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
      return line;
    }
    el_set(impl_->edit, EL_PREP_TERM, 0);
    print("\n");
    flush_output();
    if (!impl_->interrupt.interrupted()) return std::nullopt;
    el_reset(impl_->edit);
  }
}

}  // namespace fathom::apps
