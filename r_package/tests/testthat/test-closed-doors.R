# What R would drop or misread without a word is refused: unknown arguments of methods, terms of
# formulas, columns of one name, values that are no codes.

fit_of <- function(model = "logit") {
  withr::with_seed(1, {
    data <- data.frame(label = sample(c("a", "b"), 80, TRUE), x = stats::rnorm(80))
  })
  data$code <- replace(data$label, c(1, 5, 41:80), c("a", "b", rep(NA, 40)))
  regression <- label == "a" ~ x
  suppressWarnings(estimate(data, "code", regression, model = model, prob = "simple"))
}

test_that("all methods of the package use their dots or refuse arguments in them", {
  namespace <- asNamespace("llamaherd")
  methods <- getNamespaceInfo(namespace, "S3methods")
  # Generics that pass arguments to all methods alike.
  vctrs <- paste0("vec_", c("proxy", "restore", "cast", "ptype2", "ptype_abbr"))
  open <- c(vctrs, "pillar_shaft", "[", "[<-", "[[<-")
  for (i in seq_len(nrow(methods))) {
    method <- methods[i, 3]
    method <- if (is.character(method)) get(method, namespace) else method
    if ("..." %in% names(formals(method)) && !methods[i, 1] %in% open) {
      # no_part() and plot.llamaherd_fixed() always end with an error.
      ends <- any(c("abort", "check_dots") %in% all.names(body(method)))
      uses <- "..." %in% all.names(body(method))
      expect_true(uses || ends, info = paste(methods[i, 1:2], collapse = "."))
    }
  }
})

test_that("methods of estimates take the names of estimate(), and no others", {
  local_real()
  fit <- fit_of()
  expect_identical(coef(fit, methods = "gold"), coef(fit, method = "gold"))
  # Tests of hypotheses by package car need both.
  expect_identical(vcov(fit, complete = FALSE), vcov(fit))
  expect_null(df.residual(fit))
  expect_errors(
    coef(fit, methd = "gold"),
    coef(fit, methods = c("gold", "dsl")),
    confint(fit, conf.level = 0.9),
    summary(fit, level = 0.9),
    vcov(fit, "dsl", NULL, 1),
    nobs(fit, type = "x"),
    print(fit, digts = 3),
    format(fit, digits = 3),
    plot(fit, main = "x"),
    as.data.frame(fit, sep = "x"),
    confint(fit, "nope"),
    confint(fit, 9),
    residuals(fit),
    fitted(fit),
    model.frame(fit),
    predict(fit)
  )
  expect_error(confint(fit, conf.level = 0.9), "Did you mean `level`", fixed = TRUE)
  tidy <- tidy.llamaherd_estimates
  odds <- tidy(fit, conf.int = TRUE, exponentiate = TRUE)
  expect_equal(odds[c(2, 6, 7)], exp(tidy(fit, conf.int = TRUE)[c(2, 6, 7)]))
  expect_error(tidy(fit_of("ols"), exponentiate = TRUE), "logit")
  data <- data.frame(label = c("a", "b", "a", "b"), code = c("a", "b", "b", NA))
  shares <- suppressWarnings(estimate(data, "code", prob = "simple"))
  expect_identical(rownames(vcov(shares)), names(coef(shares)))
})

test_that("terms that a regression cannot use are refused", {
  local_real()
  data <- data.frame(label = c("a", "b"), x = 1:20, g = c("u", "v", "v", "u"))
  data$code <- data$label
  s <- NULL
  formulas <- list(
    label == "a" ~ x + offset(x),
    x ~ label + stats::offset(x),
    offset(x) ~ label,
    label == "a" ~ x:offset(x),
    label == "a" ~ I(offset(x)),
    label == "a" ~ s(x),
    label == "a" ~ x + Error(g),
    label == "a" ~ weights(x),
    x ~ label | g,
    label == "a" ~ (1 | g),
    label == "a" ~ .,
    label == "a" ~ log(.)
  )
  for (formula in formulas) {
    for (model in c("ols", "logit")) {
      expect_error(
        estimate(data, "code", formula, model = model, prob = "simple"),
        "without the term",
        info = deparse1(formula)
      )
    }
  }
  half <- function(x) x / 2
  fine <- c(label == "a" ~ half(x), x ~ label == "a" | g == "u", label == "a" ~ x %in% g)
  for (formula in fine) {
    expect_null(check_terms(formula, data))
  }
})

test_that("columns with one name are refused by all that read codes", {
  local_real()
  codes <- data.frame(anna = c("a", "b"), anna = c("b", "b"), check.names = FALSE)
  same <- rlang::set_names(codes, c("\u00e9va", "e\u0301va "))
  texts <- data.frame(text = c("t", "u"), label = c("a", "b"))
  gold <- gold_sample(texts, 2, text = text, label = label, seed = 1)
  for (frame in list(codes, same)) {
    expect_error(read_gold(cbind(id = gold$ids, frame), gold), "two columns")
    expect_error(validate(texts$label, frame), "two columns")
    expect_error(agreement(frame), "two columns")
  }
  expect_error(validate(cbind(texts, codes), "anna"), "several columns")
  expect_error(estimate(cbind(texts, codes), "anna", prob = "simple"), "several columns")
  lines <- c("id,code", sprintf("%s,a", gold$ids))
  path <- withr::local_tempfile(lines = lines, fileext = ".csv")
  expect_named(read_gold(c(anna = path), gold)$codes, "anna")
  expect_named(read_gold(c(anna = path, path), gold)$codes, c("anna", "code"))
  blank <- data.frame(id = c(gold$ids, NA, ""), code = c("a", "b", NA, " "))
  expect_identical(read_gold(blank, gold)$gold, c("a", "b"))
})

test_that("agreement() refuses what are no codes of one set of units", {
  local_real()
  label <- factor(c("a", "b", "c", "a", "b", "c"))
  low <- ordered(c("lo", "hi"), c("lo", "hi"))
  names <- list(c("a", "b"), c("a", "b"))
  expect_errors(
    agreement(table(label, rev(label))),
    agreement(matrix(1:4, 2, dimnames = names)),
    agreement(data.frame(id = 1:6, x = label, y = label)),
    agreement(data.frame(n = 1:6, x = c(1, 2), y = c(2, 1))),
    agreement(label, as.integer(label)),
    agreement(low, c("lo", "mid")),
    agreement(c("1,2", "3"), c("1, 2", "3")),
    agreement(c(1, Inf), c(1, 2))
  )
  expect_no_error(agreement(c("a", "a"), c("b", "b"), levels = c("a", "b")))
})

test_that("a plot is drawn when it is printed, and a script gets no Rplots.pdf", {
  local_real()
  withr::local_dir(withr::local_tempdir())
  grDevices::graphics.off()
  skip_if_not_installed("ggplot2")
  drawn <- plot(agreement(c("a", "b"), c("a", "a")))
  expect_identical(list.files(), character())
  grDevices::pdf(NULL)
  expect_silent(print(drawn))
  grDevices::dev.off()
})

test_that("S4 generics know the classes of data frames", {
  table <- structure(data.frame(x = 1), class = c("llamaherd_table", "data.frame"))
  expect_true(methods::is(table, "data.frame"))
  journal <- structure(
    data.frame(text = "a"),
    class = c("llamaherd_journal", "data.frame")
  )
  expect_identical(as.character(jsonlite::toJSON(journal)), "[{\"text\":\"a\"}]")
  local_real()
  validation <- validate(c("a", "b"), c("a", "a"))
  expect_true(jsonlite::validate(jsonlite::toJSON(validation, force = TRUE)))
})

test_that("printed rows are bounded, and no character changes their direction", {
  frame <- data.frame(text = c("a\u202eb", rep("c", 40)))
  class(frame) <- c("llamaherd_journal", "data.frame")
  printed <- capture.output(print(frame))
  expect_lt(length(printed), 25)
  expect_match(printed, "a\\u202eb", fixed = TRUE, all = FALSE)
  expect_match(printed, "... 21 more rows", fixed = TRUE, all = FALSE)
  lines <- c("head", "  x  y", sprintf("  %d  1", 1:30), "", "Note")
  expect_identical(first_rows(lines, 2L), c(lines[1:4], "  ... and 28 more", "", "Note"))
  expect_identical(first_rows(lines, 30L), lines)
})

test_that("packages of other versions are told, with both versions and the command", {
  of <- c(r = "0.2.0", python = "0.1.0")
  expect_warning(warn_version(of), "0.2.0.*0.1.0.*install_llamaherd")
  expect_silent(warn_version(c(r = "0.2.0", python = "0.2.0")))
  local_fake()
  class <- "llamaherd_error_python"
  expect_error(py_call("no_such_function"), "no function", class = class)
})

test_that("Ctrl-C cancels statistics, and waits for the end of their thread", {
  skip_on_os("windows")
  seen <- character()
  ok <- \(value = NULL) list(ok = TRUE, value = value)
  old <- the$module
  withr::defer(the$module <- old)
  the$module <- list(
    call_start = \(fun, arguments, version) ok(list(job = fun)),
    job_wait = \(job, seconds) {
      if (length(seen) == 0) {
        tools::pskill(Sys.getpid(), tools::SIGINT)
      }
      seen <<- c(seen, "wait")
      ok(list(done = FALSE, n_done = 0, n_total = 1))
    },
    job_cancel = \(job) {
      seen <<- c(seen, "cancel")
      ok()
    },
    call_result = \(job) {
      seen <<- c(seen, "result")
      ok(list(type = "ended"))
    }
  )
  caught <- tryCatch(call_python("validate", list()), interrupt = identity)
  expect_s3_class(caught, "llamaherd_interrupt")
  expect_identical(utils::tail(seen, 3), c("wait", "cancel", "result"))
})
