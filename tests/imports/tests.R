# The package's own tests, by a stand-in for testthat, which needs tibble and glue by
# itself. Tests that need a suggested package are skipped.
source("tests/imports/common.R")
alone()
grDevices::pdf(NULL)

skip <- function(reason) {
  stop(structure(
    class = c("skip", "error", "condition"),
    list(message = reason, call = NULL)
  ))
}

fail_unless <- function(good, ...) {
  if (!isTRUE(good)) {
    stop(..., call. = FALSE)
  }
  invisible()
}

matches <- function(text, regexp, fixed = FALSE, perl = FALSE) {
  text <- paste(text, collapse = "\n")
  # Messages are wrapped where paths are long.
  texts <- c(text, gsub("[[:space:]]+", " ", text))
  any(grepl(regexp, texts, fixed = fixed, perl = perl))
}

# Catches the first condition of a kind that fits, as edition 3 of testthat does; others go on.
expect_condition <- function(kind) {
  force(kind)
  function(
    object,
    regexp = NULL,
    class = NULL,
    ...,
    info = NULL,
    label = NULL
  ) {
    if (identical(regexp, NA)) {
      return(invisible(object))
    }
    condition <- NULL
    fits <- function(cnd) {
      is.null(condition) &&
        (is.null(class) || inherits(cnd, class)) &&
        (length(regexp) == 0 || matches(conditionMessage(cnd), regexp, ...))
    }
    handle <- function(cnd) {
      if (fits(cnd)) {
        condition <<- cnd
        if (kind == "warning") {
          tryInvokeRestart("muffleWarning")
        }
        if (kind == "message") tryInvokeRestart("muffleMessage")
      }
    }
    if (kind == "error") {
      tryCatch(object, error = handle)
    } else {
      eval_with(object, handle, kind)
    }
    fail_unless(!is.null(condition), "no ", kind, " that matches ", regexp)
    invisible(condition)
  }
}

eval_with <- function(expr, handle, kind) {
  if (kind == "warning") {
    withCallingHandlers(expr, warning = handle)
  } else {
    withCallingHandlers(expr, message = handle)
  }
}

# Expects equal values; attributes and the last digits may differ.
nearly <- function(x, y, tolerance = 1.5e-8, ignore_attr = FALSE) {
  if (!isFALSE(ignore_attr) && is.atomic(x)) {
    x <- as.vector(x)
    y <- as.vector(y)
  }
  isTRUE(all.equal(
    x,
    y,
    tolerance = tolerance,
    check.attributes = isFALSE(ignore_attr)
  ))
}

stand_in <- list(
  test_path = \(...) file.path("r_package/tests/testthat", ...),
  skip = skip,
  fail = \(...) stop(...),
  skip_if = \(condition, message = "") if (condition) skip(message),
  skip_if_not = \(condition, message = "") if (!condition) skip(message),
  skip_on_os = \(os) if (.Platform$OS.type == os) skip(os),
  skip_on_cran = \() NULL,
  skip_if_not_installed = \(name, ...) {
    if (!requireNamespace(name, quietly = TRUE)) skip(name)
  },
  expect_identical = \(object, expected, ..., ignore_attr = FALSE) {
    same <- identical(object, expected) ||
      nearly(object, expected, 0, ignore_attr)
    fail_unless(same, "not identical: ", deparse(object)[[1]])
  },
  expect_equal = \(
    object,
    expected,
    ...,
    tolerance = 1.5e-8,
    ignore_attr = FALSE
  ) {
    fail_unless(nearly(object, expected, tolerance, ignore_attr), "not equal")
  },
  expect_match = \(object, regexp, ..., all = TRUE, info = NULL) {
    good <- grepl(regexp, object, ...)
    fail_unless(
      length(good) > 0 && if (all) all(good) else any(good),
      "no match: ",
      object
    )
  },
  expect_no_match = \(object, regexp, ..., info = NULL) {
    fail_unless(!any(grepl(regexp, object, ...)), object)
  },
  expect_null = \(object, ...) fail_unless(is.null(object), "not NULL"),
  expect_true = \(object, ...) {
    fail_unless(isTRUE(as.vector(object)), "not TRUE")
  },
  expect_false = \(object, ...) {
    fail_unless(isFALSE(as.vector(object)), "not FALSE")
  },
  expect_length = \(object, n) {
    fail_unless(length(object) == n, "another length")
  },
  expect_named = \(object, expected, ignore.order = FALSE, ...) {
    names <- if (missing(expected)) names(object) else expected
    same <- if (ignore.order) {
      setequal(names(object), names)
    } else {
      identical(names(object), names)
    }
    fail_unless(same, "other names: ", toString(names(object)))
  },
  expect_setequal = \(object, expected) {
    fail_unless(setequal(object, expected), "other elements")
  },
  expect_type = \(object, type) {
    fail_unless(identical(typeof(object), type), "another type")
  },
  expect_s3_class = \(object, class, exact = FALSE) {
    good <- if (exact) {
      identical(class(object), class)
    } else {
      inherits(object, class)
    }
    fail_unless(good, "class ", toString(class(object)))
    invisible(object)
  },
  expect_gt = \(object, expected, ...) {
    fail_unless(object > expected, "too small")
  },
  expect_gte = \(object, expected, ...) {
    fail_unless(object >= expected, "too small")
  },
  expect_lt = \(object, expected, ...) {
    fail_unless(object < expected, "too large")
  },
  expect_lte = \(object, expected, ...) {
    fail_unless(object <= expected, "too large")
  },
  expect_silent = \(object) {
    text <- utils::capture.output(
      value <- withCallingHandlers(
        object,
        message = \(cnd) stop("a message: ", conditionMessage(cnd)),
        warning = \(cnd) stop("a warning: ", conditionMessage(cnd))
      )
    )
    fail_unless(length(text) == 0, "output: ", text[1])
    invisible(value)
  },
  expect_invisible = \(call) {
    seen <- withVisible(call)
    fail_unless(!seen$visible, "visible")
    invisible(seen$value)
  },
  expect_output = \(object, regexp = NULL, ...) {
    text <- utils::capture.output(value <- object)
    is_met <- if (is.null(regexp)) {
      TRUE
    } else if (is.na(regexp)) {
      length(text) == 0
    } else {
      matches(text, regexp, ...)
    }
    fail_unless(is_met, text)
    invisible(value)
  },
  expect_error = expect_condition("error"),
  expect_warning = expect_condition("warning"),
  expect_message = expect_condition("message"),
  capture_messages = \(code) {
    messages <- character()
    withCallingHandlers(code, message = \(cnd) {
      messages <<- c(messages, conditionMessage(cnd))
      tryInvokeRestart("muffleMessage")
    })
    messages
  },
  expect_no_error = \(object, ...) invisible(object),
  expect_no_warning = \(object, ...) invisible(object)
)

files <- list.files(
  "r_package/tests/testthat",
  "^test-.*[.]R$",
  full.names = TRUE
)
tests_of <- function(file) {
  steps <- list()
  env <- list2env(stand_in, parent = asNamespace("llamaherd"))
  env$test_that <- function(desc, code) {
    code <- substitute(code)
    frame <- parent.frame()
    scope <- new.env(parent = frame)
    steps[[paste(basename(file), desc)]] <<- function() {
      # A function, so that what withr restores is restored at its end.
      body <- eval(call("function", NULL, code), scope)
      tryCatch(body(), skip = \(cnd) skipped <<- skipped + 1L)
    }
  }
  source(
    file.path(dirname(file), "helper-fake.R"),
    local = env,
    encoding = "UTF-8"
  )
  source(file, local = env, encoding = "UTF-8")
  steps
}

skipped <- 0L
steps <- unlist(lapply(files, tests_of), recursive = FALSE)
on_end <- \() {
  cat(sprintf("%d skipped, which need suggested packages\n", skipped))
}
run_each(steps, on_end)
