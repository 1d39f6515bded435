# Ctrl-C, sent to an R of its own: it must return what is done, leave Python usable, and
# give one warning.
test_that("an interrupt returns what is done", {
  skip_if_no_python()
  skip_on_os("windows")
  installed <- nzchar(system.file("Meta", package = "llamaherd"))
  skip_if_not(
    installed,
    "llamaherd is not installed, but loaded from its sources"
  )
  folder <- withr::local_tempdir()
  script <- file.path(folder, "script.R")
  file.copy(test_path("interrupted.R"), script)
  path <- function(name) file.path(folder, name)
  arguments <- c(
    "--vanilla",
    shQuote(script),
    shQuote(folder),
    shQuote(test_path("python"))
  )
  withr::local_envvar(
    R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep)
  )
  system2(
    file.path(R.home("bin"), "Rscript"),
    arguments,
    wait = FALSE,
    stdout = path("out.txt"),
    stderr = path("out.txt")
  )
  wait_for_file <- function(name) {
    deadline <- Sys.time() + 60
    while (!file.exists(path(name)) && Sys.time() < deadline) {
      Sys.sleep(0.05)
    }
    if (!file.exists(path(name))) {
      fail(paste(
        c("no file", name, readLines(path("out.txt"))),
        collapse = "\n"
      ))
    }
  }
  wait_for_file("ready.rds")
  Sys.sleep(0.5)
  start <- Sys.time()
  tools::pskill(readRDS(path("ready.rds")), tools::SIGINT)
  wait_for_file("done.rds")
  expect_lt(as.numeric(Sys.time() - start, units = "secs"), 3)

  done <- readRDS(path("done.rds"))
  expect_identical(done$text, c(a = "x!", b = "y!", c = NA, d = NA))
  expect_identical(
    done$finish_reason,
    c("stop", "stop", "cancelled", "cancelled")
  )
  expect_true("llamaherd_result" %in% done$class)
  expect_length(done$warnings, 1)
  expect_s3_class(done$warnings[[1]], "llamaherd_warning_interrupted")
  expect_match(conditionMessage(done$warnings[[1]]), "2 of 4")
  expect_identical(done$next_call, "z!")
})
