# Stops where a package is found that Imports do not bring.
alone <- function() {
  suggested <- strsplit(
    utils::packageDescription("llamaherd")$Suggests,
    "[[:space:],]+|[(][^)]*[)]"
  )[[1]]
  needed <- basename(list.files(Sys.getenv("R_LIBS"), full.names = TRUE))
  suggested <- setdiff(suggested[nzchar(suggested)], needed)
  there <- nzchar(vapply(suggested, \(name) system.file(package = name), ""))
  if (any(there)) {
    stop("not alone: ", toString(suggested[there]))
  }
}

# Suppresses warnings, except where options(warn = 2) makes them errors.
without_warnings <- function(expr) {
  withCallingHandlers(expr, warning = \(cnd) {
    if (getOption("warn") < 2) tryInvokeRestart("muffleWarning")
  })
}

# Runs each of some named functions; ends R with a status of 1 if one failed. Prints each name
# first, so that a function that hangs is known.
run_each <- function(steps, on_end = \() NULL) {
  failed <- character()
  for (name in names(steps)) {
    cat(name, "")
    problem <- tryCatch(
      {
        utils::capture.output(without_warnings(suppressMessages(steps[[
          name
        ]]())))
        NULL
      },
      error = conditionMessage
    )
    if (!is.null(problem)) {
      failed <- c(failed, name)
      cat(sprintf("\nFAILED %s: %s\n", name, problem))
    }
  }
  cat(sprintf(
    "\n%d passed, %d failed\n",
    length(steps) - length(failed),
    length(failed)
  ))
  on_end()
  if (length(failed) > 0) quit(status = 1)
}
