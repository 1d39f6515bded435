# Receives SIGINT from test_r.py, which then runs this script again: Rscript journal.R MODEL JOURNAL
arguments <- commandArgs(TRUE)
library(llamaherd)
model <- model_load(arguments[[1]])
context <- context_create(model, n_ctx = "auto", n_threads = 1L, n_seq_max = 8)

prompts <- paste("Prompt number", 1:64)
answer <- function(...) {
  tryCatch(
    generate_parallel(
      context,
      prompts,
      max_tokens = 8,
      ignore_eos = TRUE,
      ...
    ),
    llamaherd_interrupt = \(cnd) cnd$results
  )
}
# Writes lines such as "... 4/64 updated" instead of drawing a bar.
options(cli.progress_handlers_force = "logger", cli.progress_show_after = 0)
answers <- answer(journal = arguments[[2]], progress = TRUE)
n_answered <- sum(!is.na(answers))
n_journal <- attr(answers, "stats")$n_journal
cat(sprintf(
  "answered: %d of %d, %d from the journal\n",
  n_answered,
  length(answers),
  n_journal
))
stored <- journal_read(arguments[[2]])
returned <- as.character(answers)[match(stored$prompt, prompts)]
cat(sprintf(
  "stored: %d, as returned: %s\n",
  nrow(stored),
  identical(stored$text, returned)
))
if (n_answered == length(prompts)) {
  same <- identical(as.character(answers), as.character(answer()))
  cat(sprintf("as without a journal: %s\n", same))
}
