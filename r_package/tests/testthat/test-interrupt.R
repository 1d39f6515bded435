# Tests Ctrl-C in a separate R process: the interrupt contains the finished results, Python remains
# usable, and an interrupt that is not caught ends the loop and the script.
test_that("an interrupt goes on and has what is done", {
  skip_if_no_llamaherd()
  skip_on_os("windows")
  installed <- nzchar(system.file("Meta", package = "llamaherd"))
  skip_if_not(installed, "llamaherd is not installed, but loaded from its sources")
  folder <- withr::local_tempdir()
  script <- file.path(folder, "script.R")
  file.copy(test_path("interrupted.R"), script)
  path <- function(name) file.path(folder, name)
  arguments <- c("--vanilla", shQuote(c(script, folder, test_path("python"))))
  libraries <- paste(.libPaths(), collapse = .Platform$path.sep)
  withr::local_envvar(R_LIBS = libraries, FAKE_SLOW_FILE = path("slow"))
  program <- file.path(R.home("bin"), "Rscript")
  out <- path("out.txt")
  system2(program, arguments, wait = FALSE, stdout = out, stderr = out)
  # Seconds until a hang fails. On a busy machine in emulation, R may need a minute to start.
  patience <- 600
  wait_for_file <- function(name) {
    deadline <- Sys.time() + patience
    while (!file.exists(path(name)) && Sys.time() < deadline) {
      Sys.sleep(0.05)
    }
    if (!file.exists(path(name))) {
      fail(paste(c("no file", name, readLines(out)), collapse = "\n"))
    }
  }
  wait_for_file("ready.rds")
  wait_for_file("slow")
  tools::pskill(readRDS(path("ready.rds")), tools::SIGINT)
  wait_for_file("done.rds")

  done <- readRDS(path("done.rds"))
  expect_identical(done$text, c(a = "x!", b = "y!", c = NA, d = NA))
  expect_identical(done$finish_reason, rep(c("stop", "cancelled"), each = 2))
  expect_true("llamaherd_result" %in% done$class)
  expect_identical(done$partial, c(NA, NA, "half an", NA))
  expect_identical(done$condition, c("llamaherd_interrupt", "interrupt", "condition"))
  expect_match(done$message, "Interrupted: 2 of 4 prompts done.", fixed = TRUE)
  expect_identical(done$n_seen, 1)
  expect_true(done$kept)
  expect_identical(done$next_call, "z!")

  wait_for_file("round_1.rds")
  unlink(path("slow")) # appears again and again while the second call waits
  wait_for_file("slow")
  tools::pskill(readRDS(path("again.rds")), tools::SIGINT)
  deadline <- Sys.time() + patience
  while (!any(grepl("halted", readLines(path("out.txt")))) && Sys.time() < deadline) {
    Sys.sleep(0.05)
  }
  expect_match(readLines(path("out.txt")), "1 of 2 prompts done", all = FALSE)
  expect_false(file.exists(path("round_2.rds")))
  expect_false(file.exists(path("went_on.rds")))
})
