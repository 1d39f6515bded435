# Runs programs of this folder, one after the other, in one R process: Rscript session.R FOLDER
# Reads the lines of a request from stdin: the number of arguments, the program, its arguments.
# After each program it prints a line: "session: done" or "session: failed".
folder <- commandArgs(TRUE)[[1]]
library(llamaherd)
requests <- file("stdin", "r", encoding = "UTF-8")

run <- function(program, arguments) {
  before <- options()
  on.exit({
    added <- setdiff(names(options()), names(before))
    options(c(before, stats::setNames(vector("list", length(added)), added)))
    gc()
  })
  room <- new.env(parent = globalenv())
  room$commandArgs <- function(...) arguments
  sys.source(file.path(folder, program), room)
}

while (length(n <- readLines(requests, 1L)) == 1) {
  words <- readLines(requests, as.integer(n) + 1L)
  status <- tryCatch(
    {
      run(words[[1]], words[-1])
      "done"
    },
    error = \(cnd) {
      message("Error: ", conditionMessage(cnd))
      "failed"
    }
  )
  cat("session:", status, "\n", sep = " ")
  flush(stdout())
}
