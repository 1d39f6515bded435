truth <- rep(c("pro", "con", "none"), c(40, 40, 20))
model <- c(rep("pro", 45), rep("con", 40), rep("none", 15))
prob <- seq(0.99, 0.5, length.out = 100)

value_of <- function(x, part, measure, label = "") {
  x$table$value[
    x$table$part == part & x$table$measure == measure & x$table$label == label
  ]
}

test_that("a model is measured by people's codes", {
  skip_if_no_llamaherd()
  validation <- validate(model, truth, prob = prob)
  expect_s3_class(validation, "llamaherd_validation")
  expect_equal(value_of(validation, "accuracy", "accuracy"), mean(model == truth))
  expect_identical(validation$labels$label, c("con", "none", "pro"))
  expect_equal(
    validation$labels$recall,
    as.vector(diag(table(truth, model)) / table(truth))
  )
  expect_identical(validation$labels$n_gold, c(40L, 20L, 40L))
  expect_identical(validation$labels$n_model, c(40L, 15L, 45L))
  confusion <- unclass(validation$confusion$vs_gold$model)
  expect_equal(confusion, unclass(table(model, truth)), ignore_attr = TRUE)
  kappa <- value_of(validation, "model and people", "kappa")
  expect_equal(validation$reliability$cohen$kappa, kappa)
  expect_null(validation$coder_agreement)
  expect_identical(validation$wrong$row, which(model != truth))
  expect_identical(validation$wrong$truth, truth[model != truth])
  expect_identical(as.data.frame(validation), validation$table)
  expect_identical(validation$prob, prob)
  expect_page(validation)
})

test_that("labels are columns, factors and text", {
  skip_if_no_llamaherd()
  levels <- c("pro", "con", "none")
  data <- data.frame(mine = model, hers = truth, p = prob)
  named <- \(...) {
    validate(data, ..., label_levels = levels, label_col = "mine", prob = "p")
  }
  expected <- validate(model, truth, label_levels = levels, prob = prob)$table
  for (validation in list(
    validate(factor(model, levels), factor(truth, levels), prob = prob),
    validate(factor(model, levels), truth, prob = prob),
    named("hers"),
    named(truth_col = "hers")
  )) {
    expect_identical(validation$table, expected)
  }
  names(data)[1] <- "label"
  expect_identical(
    validate(data, data$hers, prob = "p", label_levels = levels)$table,
    validate(data, "hers", prob = "p", label_levels = levels)$table
  )
})

test_that("several people may code", {
  skip_if_no_llamaherd()
  other <- replace(truth, c(1:5, 81:90), "con")
  other[91:100] <- NA
  validation <- validate(model, list(ann = truth, bob = other))
  expect_identical(validation$coders, c("ann", "bob"))
  expect_identical(
    validate(model, data.frame(ann = truth, bob = other))$table,
    validation$table
  )
  agreed <- agreement(truth, other, levels = c("con", "none", "pro"))
  expect_identical(validation$coder_agreement$value, agreed$value)
  expect_identical(unique(validation$pairs$second), c("ann", "bob"))
})

test_that("the column of the model's labels are no human codes", {
  skip_if_no_llamaherd()
  data <- data.frame(label = model, human = truth)
  expect_error(validate(data, label), "the model's labels")
  expect_error(validate(data, "label"), class = "llamaherd_error_argument")
  expect_identical(validate(data, human)$n_gold, 100L)
})

test_that("labels in order may have become text", {
  skip_if_no_llamaherd()
  levels <- c("low", "middle", "high")
  data <- data.frame(text = sprintf("Text %d.", 1:60), label = rep(levels, 20))
  data$label <- factor(data$label, levels, ordered = TRUE)
  gold <- gold_sample(data, 40, text = text, label = label, seed = 1)
  expect_identical(gold$names, levels)
  codes <- as.character(data$label[(gold$rows + gold$rows %% 2) %% 60 + 1])
  other <- codes[c(2:40, 1)]
  gold <- read_gold(data.frame(id = gold$ids, code = codes, other = other), gold)
  agreed <- agreement(codes, other, scale = "ordinal", levels = levels)
  expect_equal(agreement(gold)$value, agreed$value)
  ordered <- validate(data, gold)
  data$label <- as.character(data$label)
  as_text <- validate(data, gold)
  expect_identical(as_text$scale, "ordinal")
  expect_identical(as_text$table, ordered$table)
  data$label[data$label == "low"] <- "lo" # of all texts: not of coded texts alone
  expect_error(validate(data, gold), "`label_levels` must have all labels")
})

test_that("what was removed says what is computed", {
  expect_errors(
    "was removed.*dawid_skene" = validate(model, truth, consensus = "one_coin"),
    "was removed.*dawid_skene" = validate(model, truth, n_imputations = 3),
    "was removed.*without a bootstrap" = validate(model, truth, seed = 3)
  )
})

test_that("ordered factors have ordinal coefficients", {
  skip_if_no_llamaherd()
  levels <- c("low", "middle", "high")
  a <- ordered(c("low", "high", "middle", "low"), levels)
  b <- ordered(c("low", "high", "high", "low"), levels)
  validation <- validate(a, b)
  expect_identical(validation$scale, "ordinal")
  nominal <- validate(a, b, scale = "nominal")
  expect_identical(nominal$scale, "nominal")
  # Those of nominal labels, and more that use the order.
  names <- \(x) x$model_agreement$coefficient
  expect_gt(length(setdiff(names(validation), names(nominal))), 0)
  expect_identical(setdiff(names(nominal), names(validation)), character())
})

test_that("what annotate_texts() returns is known", {
  skip_if_no_llamaherd()
  skip_if_not_installed("tibble")
  data <- data.frame(
    text = paste("text", 1:3),
    label = c("a", "b", "b"),
    p_a = c(0.9, 0.2, 0.4),
    p_b = c(0.1, 0.8, 0.6)
  )
  info <- list(label = "label", text = "text", names = c("b", "a"))
  info$probs <- c(a = "p_a", b = "p_b")
  info$columns <- c(label = "label", prob = "p_a")
  coded <- structure(data, class = c("llamaherd_coded", class(data)), llamaherd = info)
  validation <- validate(coded, c("a", "b", "a"))
  expect_identical(validation$labels$label, c("b", "a"))
  expect_equal(value_of(validation, "calibration", "brier"), mean(c(0.02, 0.08, 0.72)))
  expect_equal(validation$prob, c(0.9, 0.8, 0.6))
  expect_identical(validation$wrong$text, "text 3")
  coded$p_b <- NULL
  expect_identical(validate(coded, c("a", "b", "a"))$prob, data$p_a)
})

test_that("a sample has its codes, weights and rows", {
  skip_if_no_llamaherd()
  data <- data.frame(id = 1:100, label = model, truth = truth, prob = prob)
  gold <- gold_sample(data, 40, prob = "uncertainty", confidence = "prob", seed = 1)
  expect_error(validate(data, gold), "the sample has none yet")
  gold <- read_gold(data.frame(id = gold$id, ann = truth[gold$rows]), gold)
  validation <- validate(data, gold, prob = "prob")
  right <- (model == truth)[gold$rows]
  expected <- stats::weighted.mean(right, 1 / gold$prob)
  expect_equal(value_of(validation, "accuracy", "accuracy"), expected)
  expect_identical(sort(validation$wrong$row), sort(gold$rows[!right]))
})

test_that("a sample of rows that were sorted or left out since is refused", {
  skip_if_no_llamaherd()
  data <- data.frame(text = paste("text", 1:100), label = model, truth = truth)
  gold <- gold_sample(data, 40, text = "text", seed = 1)
  gold <- read_gold(data.frame(id = gold$ids, ann = truth[gold$rows]), gold)
  expect_s3_class(validate(data, gold), "llamaherd_validation")
  for (rows in list(100:1, -1)) {
    expect_errors("`gold` was drawn from other data" = validate(data[rows, ], gold))
  }
  expect_errors(
    "uses the column of labels, `label`" = estimate(data, gold, nchar(text) ~ truth),
    "`text` must be the column of texts" = gold_sample(data["truth"], 40)
  )
  sheet <- withr::local_tempfile(fileext = ".csv")
  write_gold(gold, sheet, coders = "ann")
  expect_error(write_gold(gold, sheet, coders = "ben"), "overwrite = TRUE", fixed = TRUE)
  expect_errors("no_such_file.csv" = read_gold("no_such_file.csv", gold))
})

test_that("people get what the model is not sure of", {
  skip_if_no_llamaherd()
  right <- model == truth
  curve <- coverage_curve(prob, right)
  expect_s3_class(curve, c("llamaherd_coverage", "data.frame"), exact = TRUE)
  expect_equal(curve$accuracy, cumsum(right) / seq_along(right))
  validation <- validate(model, truth, prob = prob)
  expect_equal(coverage_curve(validation), curve)
  rows <- texts_for_people(validation, 0.95)
  kept <- setdiff(1:100, rows)
  expect_identical(as.vector(rows), rev(seq(length(kept) + 1, 100)))
  expect_identical(attr(rows, "threshold"), prob[[length(kept)]])
  expect_identical(texts_for_people(curve, 0.95, prob), rows)
  expect_identical(as.vector(texts_for_people(curve, 0.9, c(NA, 0.1, 1))), 1:2)
  expect_equal(coverage_curve(prob, replace(right, 100, NA))$coverage[[1]], 1 / 99)
  none <- coverage_curve(double(), logical())
  expect_identical(nrow(none), 0L)
  expect_page({
    curve
    none
  })
})

test_that("some points of a curve are a data frame", {
  skip_if_no_llamaherd()
  skip_if_not_installed("dplyr")
  curve <- coverage_curve(prob, model == truth)
  parts <- list(
    curve[curve$coverage < 0.6, ],
    dplyr::filter(curve, coverage < 0.6),
    dplyr::mutate(curve, threshold = NULL),
    dplyr::rename(curve, kept = coverage)
  )
  for (part in parts) {
    expect_s3_class(part, "data.frame", exact = TRUE)
    expect_output(print(part), "accuracy")
  }
  expect_identical(nrow(parts[[2]]), 59L)
})

test_that("models in a long table are compared on a page", {
  skip_if_no_llamaherd()
  long <- data.frame(
    sample_id = rep(1:4, 2),
    model_id = rep(c("one", "another"), each = 4),
    label = c("a", "a", "b", "b", "a", "b", "b", "b"),
    truth = rep(c("a", "b", "b", "b"), 2)
  )
  models <- validate(long)
  expect_s3_class(models, "llamaherd_comparison")
  expect_named(models, c("confusion", "reliability", "page"))
  expect_page(models)
  expect_page(validate(long[-4], include_confusion = FALSE))
})

test_that("people's numbers are the labels that numbers became", {
  skip_if_no_llamaherd()
  labels <- factor(rep(c("0", "1"), 10))
  validation <- validate(labels, rep(c(0, 1), 10))
  expect_identical(validation$table$value[validation$table$measure == "accuracy"], 1)
})

test_that("a text may have several labels", {
  skip_if_no_llamaherd()
  model <- rep(c("a; b", "a", "", NA), 10)
  people <- rep(c("b;a", "b", "none", "a"), 10)
  validation <- validate(model, people, several = TRUE)
  expect_true(validation$several)
  expect_equal(value_of(validation, "accuracy", "accuracy"), 2 / 3)
  expect_null(validation$confusion$vs_gold$model)
  expect_error(plot(validation, type = "confusion"), "no confusion matrix")
})

test_that("coded texts and samples know that there are several labels", {
  skip_if_no_llamaherd()
  data <- data.frame(
    text = paste("Text", 1:40),
    label = rep(c("a; b", "a", "", "b"), 10),
    p_a = rep(c(0.9, 0.8, 0.3, 0.1), 10),
    p_b = rep(c(0.6, 0.1, 0.2, 0.7), 10)
  )
  known <- list(label = "label", text = "text", names = c("a", "b"))
  known$probs <- c(a = "p_a", b = "p_b")
  known$columns <- c(label = "label", known$probs)
  known$codebook <- list(type = "multiple")
  known$needs <- c("label", "text")
  coded <- structure(data, llamaherd = known, class = c("llamaherd_coded", "data.frame"))
  gold <- gold_sample(coded, 20, prob = "uncertainty", seed = 1)
  expect_true(gold$design$several)
  expect_identical(which.max(gold$all_probs), 1L)
  expect_false(is.null(gold_sample(coded, 20, several = FALSE)$design$kind))
  expect_null(gold_sample(coded, 20, several = FALSE)$design$several)
  ann <- ifelse(gold$labels == "", "None", sub("a; b", "B ;a", gold$labels))
  gold <- read_gold(data.frame(id = gold$ids, ann = ann), gold)
  expect_identical(gold$codes$ann, gold$labels)
  for (of in list(coded, data)) {
    validation <- validate(of, gold)
    expect_equal(value_of(validation, "accuracy", "accuracy"), 1)
    expect_identical(validation$labels$label, c("a", "b"))
  }
})

test_that("columns may be named without quotes; a variable with other values is an error", {
  frame <- data.frame(topic = c("a", "b"), human = c("a", "b"), text = c("x", "y"))
  named <- \(x, ...) column_or_object(rlang::enquo(x), frame, "x", ...)
  expect_identical(named(human), "human")
  expect_identical(named(c(topic, human)), c("topic", "human"))
  expect_identical(named(text), "text") # there is a function text()
  human <- c("b", "b")
  expect_error(named(human), "ambiguous", class = "llamaherd_error_argument")
  expect_error(named(c(topic, human)), "`human` is a column and a variable")
  expect_identical(named(!!human), human)
  expect_identical(named("human"), "human")
  expect_identical(named(human, is_object = is.character), human)
  human <- frame$human # says the same
  expect_identical(named(human), "human")
  human <- list(anna = human) # names no column
  expect_identical(named(human), "human")
  expect_identical(named(human, is_object = is_codes), human)
  expect_identical(named("topic"), "topic")
  expect_null(named(NULL))
  expect_error(named(other), "topic, human, text", class = "llamaherd_error_argument")
})

test_that("a name in an expression of columns is not ambiguous", {
  frame <- data.frame(p = c(0.5, 0.25), other = 1:2)
  values <- \(x) column_or_values(rlang::enquo(x), frame, "x")
  expect_identical(values(1 / p), c(2, 4))
  expect_identical(values(p), "p")
  p <- c(1, 1)
  expect_error(values(1 / p), "ambiguous", class = "llamaherd_error_argument")
  expect_error(values(p), "ambiguous", class = "llamaherd_error_argument")
  expect_identical(values(1 / .data$p), c(2, 4))
  expect_identical(values(1 / !!p), c(1, 1))
  data <- data.frame(p = c(0.1, 1))
  expect_identical(values(1 / data$p), c(10, 1))
  expect_identical(values(frame[, "p"] * 2), c(1, 0.5))
  expect_identical(values(sapply(other, \(p) p * 2)), c(2, 4))
})

test_that("no variable changes what the name of a column means", {
  skip_if_no_llamaherd()
  data <- data.frame(
    lab = c("a", "b", "a"),
    h = c("a", "b", "b"),
    other = c("b", "a", "a")
  )
  accuracy <- \(...) {
    value_of(validate(data, ...), "accuracy", "accuracy")
  }
  expected <- accuracy("h", label_col = "lab")
  expect_equal(accuracy(h, label_col = lab), expected)
  local({
    h <- c("b", "a", "a")
    lab <- "other"
    model <- sample_id <- label <- list(1) # objects that no column can be
    expect_error(accuracy(h, label_col = "lab"), "ambiguous")
    expect_error(accuracy("h", label_col = lab), "ambiguous")
  })
})

test_that("arguments of several models are validate_models()'s, and still taken", {
  skip_if_no_llamaherd()
  expect_length(setdiff(names(formals(validate)), "..."), 10)
  annotations <- data.frame(
    item = rep(1:4, 2),
    coder = rep(c("small", "large"), each = 4),
    mine = c("a", "b", "a", "a", "a", "b", "b", "a"),
    hers = c("a", "b", "b", "b")
  )
  call <- quote(validate_models(
    annotations,
    gold = hers,
    sample_col = item,
    model_col = "coder",
    label_col = mine,
    method = "cohen"
  ))
  both <- list(eval(call))
  call[[1]] <- quote(validate)
  call$sample_col <- "item"
  both[[2]] <- eval(call)
  expect_s3_class(both[[1]], "llamaherd_comparison")
  expect_named(both[[1]]$reliability, "cohen")
  expect_identical(both[[2]], both[[1]])
  labels <- c("a", "b", "a")
  expect_errors("validate_models" = validate(labels, labels, TRUE, c("b", "a")))
  expect_refused({
    validate(labels, labels, n_boot = 5)
    validate(labels, labels, TRUE, scale = "metric")
    validate_models(annotations)
    validate_models("a")
  })
})

test_that("labels that are numbers are compared as numbers", {
  skip_if_no_llamaherd()
  truth <- rep(c(0, 2, 5, 7, 10), 8)
  model <- pmin(pmax(truth + rep(c(-1, 0, 2, 1), 10), 0), 10)
  validation <- validate(model, truth, scale = "interval")
  expect_equal(value_of(validation, "numbers", "pearson"), stats::cor(model, truth))
  # Numbers with fractions have the scale "interval".
  expect_identical(validate(model + 0.5, truth + 0.5)$scale, "interval")
  expect_identical(validate(as.character(model), as.character(truth))$scale, "nominal")
  expect_error(
    plot(validate(c("a", "b"), c("a", "b")), type = "numbers"),
    "`type` cannot be 'numbers': the labels are not numbers"
  )
})

test_that("a call for Shiny, whose validate() is masked, names both functions", {
  # need() is not called: the package of Shiny may be missing. Calls are text, because
  # R CMD check refuses calls of packages that are not suggested.
  for (call in c(
    'validate(need(FALSE, "Choose a file"))',
    'validate(shiny::need(FALSE, "Choose a file"), need(TRUE, "Choose another"))',
    'llamaherd::validate(need(FALSE, "Choose a file"), errorClass = "own")'
  )) {
    cnd <- expect_error(eval(str2lang(call)), class = "llamaherd_error_argument")
    expect_match(conditionMessage(cnd), "shiny::validate(need(...))", fixed = TRUE)
  }
})
