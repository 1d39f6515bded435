#' How far a model's labels can be believed
#'
#' @description
#' Compares a model's labels with the codes of people: accuracy with confidence intervals, by label
#' and in all, agreement between the model and people and between the people, calibration, and the
#' texts that the model got wrong although it was sure. With several models' labels in a long data
#' frame, as package localLLM has them, it returns tables and reliability, as there.
#'
#' @section What counts:
#' Where several people coded a text, what most of them say is right; where two labels have as many,
#' the text does not count for accuracy. Texts that [gold_sample()] drew count by 1 / inclusion
#' probability, so that all numbers are of all texts. Texts without a label are left out. Each of
#' these leads to a warning in the result.
#'
#' @section Which numbers to report:
#' Accuracy and macro F1 with their intervals, beside the accuracy of giving always the most
#' frequent label and beside how often two people agree; precision and recall of the labels that the
#' analysis uses; Krippendorff's alpha between the people. A model that agrees with one of the
#' people as often as they with each other is as good as a further person.
#'
#' @param annotations The labels of a model: what [annotate_texts()] returned; a data frame with the
#'   column `label_col`; a factor or vector with a label for each text, NA where there is none. For
#'   several models a data frame with a row for each text and model, or what [explore()] returned.
#' @param gold People's codes: what [gold_sample()] made, with codes; a vector with one for each
#'   text, NA where there is none; a data frame or list with such a vector for each of several
#'   people; names of columns of `annotations`, also unquoted. Codes are compared as [agreement()]
#'   reads them. NULL: the column `truth_col`. For several models as
#'   for [compute_confusion_matrices()].
#' @inheritParams compute_confusion_matrices
#' @param label_levels All labels, in their order; NULL: the levels of factors, those of the
#'   codebook, or what occurs.
#' @param method,pairwise,include_confusion,include_reliability For several models: what to compute.
#' @param prob How sure the model is: the name of a column, or a number from 0 to 1 for each text.
#'   NULL: what [annotate_texts()] put there.
#' @inheritParams agreement
#' @param n_bootstrap Draws for the intervals of F1, balanced accuracy and alpha.
#' @param several Whether a text may have several labels, joined by `"; "`, with `""` or `"none"`
#'   for none of them. Each is measured as a yes or no of its own, and accuracy is the share of
#'   texts with exactly the right ones. `NULL`: as `annotations` or `gold` know.
#' @returns A `llamaherd_validation`, which prints as a page: a list with
#'
#'   * `table`: all numbers as a long data frame with the columns `part`, `measure`, `label`,
#'     `value`, `low`, `high` and `n`; [as.data.frame()] gives it, too.
#'   * `labels`: a data frame with a row for each label: how often people and the model gave it,
#'     precision, recall and F1.
#'   * `model_agreement`, `coder_agreement`: coefficients between the model and people, and between
#'     people (NULL of one), as [agreement()] has them. Of several labels means over the labels, and
#'     `label_agreement` has those of each.
#'   * `pairs`: a data frame of how far each two coders agree, the model among them: `first`,
#'     `second`, and the columns of [agreement()]; NULL of one person.
#'   * `confusion`, `reliability`: as [compute_confusion_matrices()] and [intercoder_reliability()]
#'     have them, of the model (`model`) and people (`people`); the table counts texts as they are,
#'     and of several labels there is none.
#'   * `bins`: for a reliability diagram, a data frame; NULL if it is not known how sure the model
#'     is.
#'   * `coverage`: see [coverage_curve()]; NULL likewise.
#'   * `wrong`: a data frame of the texts that the model got wrong, the surest first: `row`,
#'     `label`, `truth`, `prob` and, if it is known, `text`.
#'   * `warnings`: what to think of before all that is believed.
#'   * `n_texts`, `n_gold`, `coders`, `is_weighted`, `several`, `scale`, `level`, `prob`.
#'
#'   For several models a `llamaherd_comparison`, which prints as a page: a list with `confusion`
#'   and `reliability`.
#' @seealso [agreement()], [texts_for_people()]
#' @export
#' @examplesIf llamaherd_available()
#' truth <- rep(c("pro", "con", "none"), c(40, 40, 20))
#' model <- c(rep("pro", 45), rep("con", 40), rep("none", 15))
#' prob <- seq(0.99, 0.5, length.out = 100)
#' found <- validate(model, truth, prob = prob)
#' found
#' subset(as.data.frame(found), measure == "f1")
#'
#' # Ordered factors have weighted kappa and ordinal alpha.
#' levels <- c("low", "middle", "high")
#' validate(
#'   ordered(c("low", "high", "middle", "low"), levels),
#'   ordered(c("low", "high", "high", "low"), levels)
#' )$model_agreement
validate <- function(
  annotations,
  gold = NULL,
  pairwise = TRUE,
  label_levels = NULL,
  sample_col = "sample_id",
  model_col = "model_id",
  label_col = "label",
  truth_col = "truth",
  method = c("auto", "cohen", "krippendorff"),
  include_confusion = TRUE,
  include_reliability = TRUE,
  prob = NULL,
  scale = NULL,
  level = 0.95,
  n_bootstrap = 2000L,
  seed = 0L,
  several = NULL
) {
  error_call <- rlang::current_env()
  label_is_default <- missing(label_col)
  gold <- column_or_object(rlang::enquo(gold), annotations)
  label_col <- column_or_object(rlang::enquo(label_col), annotations)
  truth_col <- column_or_object(rlang::enquo(truth_col), annotations)
  prob <- column_or_object(rlang::enquo(prob), annotations)
  if (is_of_models(annotations, gold, sample_col, model_col)) {
    return(validate_models(environment(), error_call))
  }
  coded <- coded_parts(annotations, label_col, label_is_default, prob, error_call)
  gold <- gold_parts(gold, coded, truth_col, error_call)
  several <- if (is.null(several)) coded$several || gold$several else check_flag(several)
  columns <- c(list(coded$labels), gold$codes)
  scale <- check_scale(scale %||% gold$design$scale, columns, error_call)
  levels <- label_levels %||% coded$names
  levels <- check_levels(levels, error_call, "label_levels")
  options <- list(
    scale = scale,
    level = check_number(level),
    n_bootstrap = check_whole(n_bootstrap, min = 0),
    seed = check_whole(seed, min = 0),
    several = several
  )
  found <- py_call(
    "validate",
    list(
      labels = as_codes(coded$labels),
      names = levels %||% list(),
      known = if (several) list() else known_levels(columns),
      probs = coded_probs(coded, levels),
      texts = texts_to_compare(coded, gold),
      codebook = coded$codebook
    ),
    list(
      codes = unname(lapply(gold$codes, as_codes)),
      coders = as_py_list(gold$coders),
      json = gold$json,
      columns = py_columns(coded$frame, gold_columns(gold, coded$frame))
    ),
    options,
    error_call = error_call
  )
  result <- new_validation(found, coded, options)
  document_event("validate", \() {
    overall <- result$table[result$table$part == "accuracy", ]
    c(
      result[c("n_texts", "n_gold", "is_weighted", "scale", "level")],
      list(
        n_coders = length(result$coders),
        input_hash = lines_sha256(as.character(coded$labels)),
        gold_hash = lines_sha256(unlist(lapply(gold$codes, as.character)))
      ),
      stats::setNames(as.list(overall$value), overall$measure)
    )
  })
  result
}

# A row for each text and model, as localLLM has it.
is_of_models <- function(annotations, gold, sample_col, model_col) {
  if (inherits(annotations, "llamaherd_coded") || inherits(gold, "llamaherd_gold")) {
    return(FALSE)
  }
  if (is.data.frame(annotations)) {
    return(all(c(sample_col, model_col) %in% names(annotations)))
  }
  is.list(annotations) && is.data.frame(annotations$annotations)
}

validate_models <- function(env, error_call) {
  confusion <- check_flag(env$include_confusion, "include_confusion", error_call)
  reliability <- check_flag(env$include_reliability, "include_reliability", error_call)
  if (!confusion && !reliability) {
    abort(
      "At least one of {.arg include_confusion} and {.arg include_reliability} must be TRUE.",
      "argument",
      error_call
    )
  }
  common <- c("annotations", "label_levels", "sample_col", "model_col", "label_col")
  same <- mget(common, envir = env)
  result <- list()
  if (confusion) {
    more <- mget(c("gold", "pairwise", "truth_col"), envir = env)
    result$confusion <- do.call(compute_confusion_matrices, c(same, more))
  }
  if (reliability) {
    result$reliability <- do.call(
      intercoder_reliability,
      c(same, list(method = env$method))
    )
  }
  result <- structure(result, class = "llamaherd_comparison")
  document_event("validate", \() list(models = names(shares_right(result))))
  result
}

# For each model the share of its labels that are those of people; NULL if there are none.
shares_right <- function(x) {
  vapply(x$confusion$vs_gold, \(counts) sum(diag(counts)) / sum(counts), double(1))
}

#' @export
format.llamaherd_comparison <- function(x, ...) {
  right <- shares_right(x)
  n <- vapply(x$confusion$vs_gold, sum, double(1))
  kappas <- x$reliability$cohen
  alpha <- x$reliability$krippendorff$alpha
  parts <- list(
    "<llamaherd_comparison> of models' labels",
    if (length(right) > 0) {
      c(
        "labels that are those of people:",
        sprintf("  %s  %5.1f%% of %s", format(names(right)), 100 * right, big(n))
      )
    },
    if (!is.null(kappas)) {
      pair <- paste(kappas$model_a, "and", kappas$model_b)
      c(
        "between models:",
        sprintf(
          "  %s  Cohen's kappa %.2f, alike %.1f%%",
          format(pair),
          kappas$kappa,
          100 * kappas$observed
        )
      )
    },
    if (!is.null(alpha)) sprintf("Krippendorff's alpha of all models: %.2f", alpha),
    lapply(names(x$confusion$vs_gold), \(name) {
      table_lines(x$confusion$vs_gold[[name]], name, "people")
    }),
    lapply(names(x$confusion$pairwise), \(name) {
      sides <- strsplit(name, " vs ", fixed = TRUE)[[1]]
      table_lines(x$confusion$pairwise[[name]], sides[[1]], sides[[2]])
    })
  )
  parts <- unlist(lapply(parts, \(part) if (is.list(part)) part else list(part)), FALSE)
  parts <- Filter(\(part) length(part) > 0, parts)
  utils::head(unlist(lapply(parts, c, "")), -1)
}

# A table of few labels as lines; `rows` and `columns` are whose they are.
table_lines <- function(counts, rows, columns) {
  if (nrow(counts) > 8) {
    return(NULL)
  }
  corner <- paste(rows, columns, sep = " \\ ")
  cells <- rbind(
    c(corner, colnames(counts)),
    cbind(rownames(counts), unclass(counts))
  )
  wide <- apply(cells, 2, \(column) max(nchar(column, "width")))
  lines <- lapply(seq_along(wide), \(j) {
    formatC(cells[, j], width = if (j == 1) -wide[[j]] else wide[[j]])
  })
  do.call(paste, c(lines, sep = "  "))
}

#' @export
print.llamaherd_comparison <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}

# Labels of a model: a list with `labels`, `names` of all, `prob`, `probs` (a matrix), `texts`
# and the data frame itself.
coded_parts <- function(x, label_col, is_default, prob, error_call) {
  if (!is.data.frame(x)) {
    if (!is.atomic(x) || is.null(x)) {
      must <- "a data frame, or a vector with a label for each text"
      abort_argument("annotations", must, x, error_call)
    }
    prob <- coded_prob(NULL, prob, length(x), error_call)
    return(list(labels = x, prob = prob, several = FALSE))
  }
  info <- attr(x, "llamaherd")
  label <- if (is_default && !is.null(info$label)) info$label else check_string(label_col)
  if (!label %in% names(x)) {
    must <- paste("the name of a column, of which there are", toString(names(x)))
    abort_argument("label_col", must, label, error_call)
  }
  is_ours <- identical(label, info$label)
  names <- if (is_ours && length(info$names) > 0) as.character(info$names)
  columns <- if (!is.null(names)) unname(info$probs[names])
  has_probs <- length(columns) > 0 && all(columns %in% names(x))
  if (is.null(prob) && is_ours && !has_probs) {
    prob <- unname(info$columns["prob"])
    prob <- if (!is.null(prob) && prob %in% names(x)) prob
  }
  list(
    labels = x[[label]],
    names = names,
    prob = coded_prob(x, prob, nrow(x), error_call),
    probs = if (is.null(prob) && has_probs) {
      values <- vapply(columns, \(name) as.double(x[[name]]), double(nrow(x)))
      matrix(values, nrow = nrow(x))
    },
    texts = if (is_ours && isTRUE(info$text %in% names(x))) as.character(x[[info$text]]),
    codebook = if (is_ours) info$codebook$content,
    several = is_ours && identical(info$codebook$type, "multiple"),
    frame = x
  )
}

coded_prob <- function(frame, prob, n, error_call) {
  if (is.null(prob)) {
    return(NULL)
  }
  if (is.character(prob) && length(prob) == 1 && prob %in% names(frame)) {
    prob <- frame[[prob]]
  }
  if (!is.numeric(prob) || length(prob) != n) {
    must <- sprintf("the name of a column, or a number for each of %d texts", n)
    abort_argument("prob", must, prob, error_call)
  }
  as.double(prob)
}

# Probabilities as Python takes them: those of all labels by rows, or the labels' own.
coded_probs <- function(coded, levels) {
  if (!is.null(coded$probs) && length(levels) == ncol(coded$probs)) {
    return(rows_of(coded$probs))
  }
  if (!is.null(coded$probs)) {
    at <- cbind(seq_along(coded$labels), match(coded$labels, coded$names))
    coded$prob <- coded$probs[at]
  }
  if (!is.null(coded$prob)) as_py_list(check_numeric(coded$prob))
}

# People's codes: a list with `codes`, a list of vectors, `coders`, and `json` of a sample.
gold_parts <- function(gold, coded, truth_col, error_call) {
  n <- length(coded$labels)
  if (inherits(gold, "llamaherd_gold")) {
    return(gold_sample_parts(gold, error_call))
  }
  gold <- gold %||% check_string(truth_col)
  if (is.character(gold) && !is.null(coded$frame) && all(gold %in% names(coded$frame))) {
    gold <- rlang::set_names(lapply(gold, \(name) coded$frame[[name]]), gold)
  } else if (is.data.frame(gold)) {
    gold <- as.list(gold)
  } else if (is.atomic(gold)) {
    gold <- list("coder 1" = gold)
  }
  if (
    !all(vapply(gold, is.atomic, TRUE)) || !all(lengths(gold) == n) || length(gold) == 0
  ) {
    must <- sprintf("codes of people, one or NA for each of %d texts, or columns", n)
    codes <- unlist(gold, use.names = FALSE)
    abort_argument("gold", must, codes, error_call, column_hint(codes, coded$frame))
  }
  names <- rlang::names2(gold)
  list(
    codes = unname(gold),
    coders = ifelse(nzchar(names), names, paste("coder", seq_along(gold))),
    several = FALSE
  )
}

# Those of the rows, also where the labels did not come from annotate_texts().
texts_to_compare <- function(coded, gold) {
  texts <- coded$texts
  if (is.null(texts) && isTRUE(gold$text %in% names(coded$frame))) {
    texts <- as.character(coded$frame[[gold$text]])
  }
  if (!is.null(texts)) text_list(as_utf8(texts))
}

gold_sample_parts <- function(gold, error_call) {
  list(
    json = check_gold(gold, error_call),
    codes = unname(gold$codes),
    coders = names(gold$codes),
    several = isTRUE(gold$design$several),
    text = gold$design$text,
    design = gold$design
  )
}

new_validation <- function(found, coded, options) {
  labels <- as_text(found$labels)
  confusion <- if (!found$several) count_table(found$confusion, labels)
  texts <- c("part", "measure", "label")
  columns <- c(
    lapply(found$table[texts], as_text),
    lapply(found$table[c("value", "low", "high")], numbers_of),
    list(n = as.integer(unlist(found$table$n)))
  )
  wrong <- found$wrong
  row <- as.integer(unlist(wrong$row))
  wrong <- list(
    row = row,
    label = as_text(wrong$label),
    truth = as_text(wrong$truth),
    prob = numbers_of(wrong$prob)
  )
  wrong$text <- if (!is.null(coded$texts)) coded$texts[row]
  table <- new_frame(columns, length(columns$n))
  structure(
    list(
      n_texts = found$n_texts,
      n_gold = found$n_gold,
      coders = as_text(found$coders),
      is_weighted = found$is_weighted,
      several = found$several,
      scale = found$scale,
      level = options$level,
      table = table,
      labels = label_frame(table, labels, found),
      model_agreement = new_agreement(found$model_agreement, options),
      coder_agreement = new_agreement(found$coder_agreement, options),
      label_agreement = agreement_by(found$label_agreement, c("label", "between")),
      pairs = agreement_by(found$pairs, c("first", "second")),
      confusion = list(vs_gold = list(model = confusion), pairwise = NULL),
      reliability = reliability_of(found$model_agreement),
      bins = if (!is.null(found$bins)) as.data.frame(lapply(found$bins, numbers_of)),
      coverage = if (!is.null(found$coverage)) {
        new_coverage(found$coverage, options$level)
      },
      prob = if (!is.null(found$confidence)) numbers_of(found$confidence),
      wrong = new_frame(wrong, length(row)),
      warnings = as_text(found$warnings),
      page = as_text(found$page),
      json = found$json
    ),
    class = "llamaherd_validation"
  )
}

new_agreement <- function(columns, options) {
  if (length(columns) == 0) {
    return(NULL)
  }
  structure(
    agreement_frame(columns),
    class = c("llamaherd_agreement", "data.frame"),
    level = options$level,
    scale = options$scale
  )
}

# A row for each coefficient, with further columns that tell what it is of; NULL if there is none.
agreement_by <- function(columns, names) {
  if (length(columns) > 0) {
    of <- lapply(columns[names], as_text)
    cbind(new_frame(of, length(of[[1]])), agreement_frame(columns))
  }
}

# A row for each label.
label_frame <- function(table, labels, found) {
  counts <- matrix(as.integer(unlist(found$counts)), ncol = 2, byrow = TRUE)
  columns <- list(
    label = labels,
    n_gold = counts[, 1],
    n_model = counts[, 2],
    share = numbers_of(found$shares)
  )
  for (name in c("precision", "recall", "f1")) {
    of <- table[table$part == "label" & table$measure == name, ]
    columns[[name]] <- of$value
    columns[[paste0(name, "_low")]] <- of$low
    columns[[paste0(name, "_high")]] <- of$high
  }
  new_frame(columns, length(labels))
}

# The model and people as intercoder_reliability() has two models.
reliability_of <- function(columns) {
  frame <- agreement_frame(columns)
  kappa <- frame[frame$coefficient == "kappa", ]
  list(
    cohen = data.frame(
      model_a = "model",
      model_b = "people",
      kappa = kappa$value,
      observed = kappa$observed,
      expected = kappa$expected
    ),
    krippendorff = list(alpha = frame$value[frame$coefficient == "alpha"])
  )
}

#' @export
format.llamaherd_validation <- function(x, ...) x$page

#' @export
print.llamaherd_validation <- function(x, ...) {
  writeLines(x$page)
  invisible(x)
}

#' @export
as.data.frame.llamaherd_validation <- function(x, ...) x$table
