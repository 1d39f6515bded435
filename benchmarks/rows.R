# Measures R's annotate_texts() for rows.py; prints JSON.
#   Rscript benchmarks/rows.R MODEL ROWS

suppressPackageStartupMessages(library(llamaherd))

arguments <- commandArgs(trailingOnly = TRUE)
n <- as.integer(arguments[2])
context <- context_create(model_load(arguments[1]))
book <- codebook(
  "Is the speech for or against?",
  c("for", "against", "neither")
)
speeches <- data.frame(
  text = sprintf(
    "Speech number %07d: the roads have to be mended now.",
    seq_len(n) - 1L
  )
)

rss <- function() {
  status <- readLines("/proc/self/status")
  1024 * as.double(gsub("[^0-9]", "", grep("^VmRSS", status, value = TRUE)))
}
before <- rss()

# Each update of the progress bar is a message; the first message is measured.
options(cli.progress_handlers_force = "logger", cli.progress_show_after = 0)
start <- proc.time()[["elapsed"]]
first <- NA
coded <- withCallingHandlers(
  annotate_texts(speeches, text, book, context, progress = TRUE),
  cliMessage = \(cnd) {
    if (is.na(first)) first <<- proc.time()[["elapsed"]] - start
  }
)
seconds <- proc.time()[["elapsed"]] - start
stopifnot(all(is.na(coded$error)))
cat(jsonlite::toJSON(
  list(before = before, first_s = first, seconds = seconds),
  auto_unbox = TRUE,
  digits = 6
))
