# Runs each file of the R package's tests in a separate R process, so that a file that ends or
# blocks R does not hide the results of the other files. The package must be installed.
# Usage: Rscript testthat_files.R PROCESSES FOLDER SECONDS. PROCESSES is the number of files that
# run at a time (default: 1), FOLDER contains the files (r_package/tests/testthat), and after
# SECONDS (3600) a process is killed. Prints a line per file, then the skipped tests with their
# reasons and the failures; exits with 1 if a test failed or a process ended early.

# Runs one file in this process, and stores its tests and what they reported in OUTPUT.
run_here <- function(file, output) {
  # Without this variable, testthat skips tests that are not for CRAN.
  Sys.setenv(NOT_CRAN = "true")
  results <- testthat::test_dir(
    dirname(file),
    filter = sprintf("^%s$", name_of(file)),
    package = "llamaherd",
    load_package = "installed",
    reporter = "check",
    stop_on_failure = FALSE
  )
  tests <- as.data.frame(results)
  tests$test[is.na(tests$test)] <- "code outside of test_that()"
  skips <- lapply(results, \(test) {
    skipped <- Filter(\(x) inherits(x, "expectation_skip"), test$results)
    data.frame(
      test = rep(test$test, length(skipped)),
      reason = vapply(
        skipped,
        \(x) sub("^Reason: ", "", conditionMessage(x)),
        ""
      )
    )
  })
  saveRDS(
    list(
      n = nrow(tests),
      failed = tests$test[tests$failed > 0 | tests$error],
      skips = do.call(rbind, skips)
    ),
    output
  )
}

name_of <- function(file) sub("^test-?(.*)[.][Rr]$", "\\1", basename(file))

# Runs one file in another process. Returns a list: file, n (tests), failed (names), skips (test,
# reason), and text, the output of a process with a failure, or NULL.
run_apart <- function(file, seconds) {
  output <- tempfile(fileext = ".rds")
  log <- tempfile(fileext = ".log")
  on.exit(unlink(c(output, log)))
  start <- proc.time()[["elapsed"]]
  status <- suppressWarnings(system2(
    file.path(R.home("bin"), "Rscript"),
    c(
      "--vanilla",
      shQuote(this_script()),
      "--one",
      shQuote(file),
      shQuote(output)
    ),
    stdout = log,
    stderr = log,
    timeout = seconds
  ))
  found <- list(n = 0L, failed = character(), skips = NULL)
  if (file.exists(output)) {
    found <- readRDS(output)
  }
  # A process may also end after the tests, for example when a finalizer fails.
  if (status != 0 || !file.exists(output)) {
    reason <- sprintf("R ended early, exit status %d", status)
    if (status == 124) {
      reason <- sprintf("killed after %d s", seconds)
    }
    found$failed <- c(found$failed, reason)
  }
  cat(sprintf(
    "%s: tests: %d, failed: %d, skipped: %d (%.0f s)\n",
    basename(file),
    found$n,
    length(found$failed),
    NROW(found$skips),
    proc.time()[["elapsed"]] - start
  ))
  text <- if (length(found$failed)) readLines(log, warn = FALSE)
  c(list(file = basename(file), text = text), found)
}

this_script <- function() {
  sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[[1]])
}

print_skips <- function(runs) {
  skips <- do.call(
    rbind,
    lapply(runs, \(run) {
      if (NROW(run$skips)) cbind(file = run$file, run$skips)
    })
  )
  for (reason in unique(skips$reason)) {
    same <- skips[skips$reason == reason, ]
    cat(sprintf("\nskipped, %s (%d):\n", reason, nrow(same)))
    cat(sprintf("  %s: %s\n", same$file, same$test), sep = "")
  }
}

print_failures <- function(runs) {
  for (run in Filter(\(run) length(run$failed) > 0, runs)) {
    cat(sprintf("\nFAILED %s: %s\n", run$file, run$failed), sep = "")
    cat(utils::tail(run$text, 60), sep = "\n")
  }
}

run_all <- function(
  processes = "1",
  folder = "r_package/tests/testthat",
  seconds = "3600"
) {
  files <- list.files(folder, pattern = "^test.*[.][Rr]$", full.names = TRUE)
  runs <- parallel::mclapply(
    files,
    run_apart,
    as.integer(seconds),
    mc.cores = as.integer(processes),
    mc.preschedule = FALSE
  )
  print_skips(runs)
  print_failures(runs)
  count <- \(get) sum(vapply(runs, get, 0L))
  n_failed <- count(\(run) length(run$failed))
  cat(sprintf(
    "\nfiles: %d, tests: %d, failed: %d, skipped: %d\n",
    length(files),
    count(\(run) run$n),
    n_failed,
    count(\(run) NROW(run$skips))
  ))
  if (n_failed > 0 || length(files) == 0) quit(status = 1)
}

arguments <- commandArgs(TRUE)
if (length(arguments) && arguments[[1]] == "--one") {
  run_here(arguments[[2]], arguments[[3]])
} else {
  do.call(run_all, as.list(arguments))
}
