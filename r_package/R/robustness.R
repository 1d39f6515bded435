#' Measure how labels depend on wording, order, model and chance
#'
#' Labels the same texts in several variants and compares the labels. Variants can differ in the
#' words of the codebook, the order of the labels, the model, the use of thoughts and, for labels
#' generated with a temperature, the seed.
#'
#' @param data Return value of [annotate_texts()]; its codebook, settings and seed are then the
#'   first variant, and [report()] accepts the result. Another data frame is also accepted.
#' @param text See [annotate_texts()]; not needed if `data` is the return value of
#'   [annotate_texts()].
#' @param codebooks A codebook, or a list of codebooks with the same labels. Labels of the other
#'   codebooks are compared with the labels of the first codebook. The result shows the names of the
#'   list. If `data` is the return value of [annotate_texts()], you may omit this argument; the
#'   first codebook is then the codebook of `data`.
#' @param contexts A context, or a list of contexts with different models. If `data` is the return
#'   value of [annotate_texts()], the first context must use the model that labelled `data`.
#' @param orders Further orders of the labels: a number of random orders, or a list of character
#'   vectors. Ordinal scales cannot be reordered.
#' @param seeds Seeds for sampling. Seeds need `method = "generate"` and a `temperature`.
#' @param thinking Values of `thinking` to try, such as `list(FALSE, 128, 512)`; `costs` of the
#'   result contains the time and the tokens for each value. A single value, or a return value of
#'   [thinking()], applies to all variants. Needs `chat = TRUE`.
#' @param n_texts Number of texts to draw. NULL uses all texts that are not NA.
#' @param seed Seed for drawing orders and texts.
#' @param crossed TRUE runs all combinations; FALSE varies one factor at a time.
#' @param gold A coded [gold_sample()] of `data`. With `gold` the result contains a DSL estimate for
#'   each variant, computed from the labels of the variant and the same codes; the estimates show
#'   how much a conclusion depends on the variant. With `n_texts` only codes of drawn texts are
#'   used.
#' @param formula,outcome See [estimate()]; labels are called `label` in the formula.
#' @param progress,verbosity See [annotate_texts()].
#' @param ... Further arguments of [annotate_texts()], such as `method`, `chat` and `template`,
#'   which replace the arguments that were used for `data`.
#' @returns A `llamaherd_robustness`, a list:
#'
#'   * `summary`: a data frame with one row per variant: `variant` (name of the variant), `flips`
#'     (share of texts whose label differs from the label in the first variant), and one column per
#'     label with its share. [as.data.frame()] returns it.
#'   * `labels`: a data frame with one row per text: `row` (row of the text in `data`), `unstable`
#'     (share of variants whose label differs from the most frequent label of the text), and one
#'     column per variant with the label of the text.
#'   * `pairwise`: a matrix of the share of texts with different labels in two variants.
#'   * `ranges`: a data frame of the smallest and the largest share of each label.
#'   * `agreement`: mean share of equal labels over all pairs of variants; `alpha`: Krippendorff's
#'     alpha with variants as coders.
#'   * `estimates`: with `gold`, a data frame with one row per variant and estimate: `variant`, and
#'     the columns of [estimate()]. Variants for which no estimate can be computed are left out with
#'     a warning.
#'   * `notes`: notes on the estimates.
#'   * `costs`: a data frame with one row per variant: `variant`, and per text `seconds`, `tokens`
#'     (the number of computed tokens) and `thinking_tokens`.
#'   * `runs`: the record of the coding of each variant, as JSON.
#' @seealso [annotate_texts()], [estimate()]
#' @concept sensitivity to the prompt
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' labels <- c("Sports", "Business", "Science", "Politics")
#' books <- list(
#'   label = codebook("Label the topic of each news text.", labels),
#'   ask = codebook("What is the text about?", labels)
#' )
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#'
#' found <- robustness(news, text, books, context, orders = 1, n_texts = 8)
#' found
#' if (requireNamespace("ggplot2", quietly = TRUE)) {
#'   plot(found)
#' }
robustness <- function(
  data,
  text = NULL,
  codebooks = NULL,
  contexts = NULL,
  ...,
  orders = 0L,
  seeds = integer(),
  n_texts = NULL,
  seed = 1234L,
  crossed = FALSE,
  gold = NULL,
  formula = NULL,
  outcome = NULL,
  progress = interactive(),
  verbosity = 0L,
  thinking = NULL
) {
  check_frame(data)
  check_dots(
    rlang::enquos(...),
    strsplit(
      "method calibrate normalize chat split part_tokens temperature max_tokens n_thoughts
       variables template merge_system date",
      "\\s+"
    )[[1]]
  )
  settings <- list(...)
  coding <- attr(data, "llamaherd")
  text <- rlang::enquo(text)
  if (rlang::quo_is_null(text)) {
    if (is.null(coding$text) || is.na(coding$text)) {
      abort_column("text", NULL, data)
    }
    text <- rlang::new_quosure(as.name(coding$text))
  }
  texts <- texts_of(data, text)
  warn_invalid(texts$bad, nrow(data))
  column <- stats::setNames(list(texts$values), texts$name)
  # Record of the labels that `data` already has; NULL if other texts are coded.
  run <- if (texts$is_column && identical(texts$name, coding$text)) coding$run_json
  frame <- if (is.null(run)) {
    tagged("frame", content = column)
  } else {
    tagged("coded", text = texts$name, texts = texts$values, run = run)
  }
  books <- if (is.null(codebooks) && !is.null(run)) {
    list()
  } else {
    list_of(codebooks, "llamaherd_codebook", "codebooks")
  }
  places <- list_of(contexts, "llamaherd_context", "contexts")
  settings <- settings_given(settings)
  arguments <- py_arguments(
    c("n_texts", "seed", "crossed"),
    frame = frame,
    text = texts$name,
    codebooks = if (length(books) > 0) lapply(books, as_python),
    contexts = lapply(places, as_python, "contexts"),
    orders = check_orders(orders),
    seeds = py_values(seeds) %||% list(),
    thinking = check_budgets(thinking),
    settings = settings
  )
  name <- if (texts$name %in% names(data)) texts$name
  gold <- check_judge(gold, data, name, arguments, formula, outcome)
  result <- call_python("robustness", arguments, progress, verbosity)
  if (!is.null(gold)) {
    several <- c(books, list(coding$codebook))[[1]]$type == "multiple"
    frame <- as.data.frame(data)
    result <- keeping(
      result,
      with_estimates(result, frame, name, gold, formula, outcome, several)
    )
  }
  keeping(
    result,
    document_event(
      "robustness",
      n_texts = nrow(result$labels),
      variants = result$summary$variant,
      agreement = result$agreement,
      alpha = result$alpha,
      input_hash = lines_sha256(texts$texts[result$labels$row]),
      output_hash = lines_sha256(unlist(lapply(result$labels[-(1:2)], as.character))),
      settings = settings
    )
  )
  result
}

# Checks, before texts are labelled, that estimates will be possible.
check_judge <- function(gold, data, text, arguments, formula, outcome) {
  if (is.null(gold)) {
    if (!is.null(formula) || !is.null(outcome)) {
      message <- "{.arg formula} and {.arg outcome} are used for estimates, which need {.arg gold}."
      abort(message)
    }
    return(NULL)
  }
  sample <- gold_for_python(gold)
  # The sample loses its labels, because the labels of variants differ from the labels by which it
  # was drawn.
  codes <- call_python(
    "gold_of_variants",
    list(
      data = frame_for_python(data, c(text, gold_columns(gold, data))),
      gold = sample,
      text = text,
      texts = arguments$frame$content[[1]] %||% arguments$frame$texts,
      n_texts = arguments$n_texts,
      seed = arguments$seed
    )
  )
  if (codes$n_codes < 2) {
    must <- "a sample with codes of at least two of the texts to be coded"
    abort_argument("gold", must, gold)
  }
  if (!is.null(formula) && !rlang::is_formula(formula)) {
    abort_argument("formula", "a formula, such as label == \"x\" ~ age", formula)
  }
  with_element(gold, "json", codes$json)
}

# Computes the estimates with the labels of each variant. Formulas are R's, so R evaluates them.
with_estimates <- function(result, frame, text, gold, formula, outcome, several) {
  class(frame) <- "data.frame"
  frame$label <- NULL
  document <- the$document
  the$document <- NULL # the log records the robustness check, not each estimate
  on.exit(the$document <- document)
  problems <- character()
  fits <- lapply(result$summary$variant, \(variant) {
    labels <- result$labels[[variant]]
    frame$label <- labels[NA_integer_][rep(1L, nrow(frame))]
    frame$label[result$labels$row] <- labels
    arguments <- list(frame, gold, formula, methods = "dsl", label = "label", text = text)
    arguments <- c(arguments, list(outcome = outcome, several = several))
    rlang::try_fetch(
      suppressWarnings(do.call(estimate, arguments)),
      error = \(cnd) {
        problem <- sprintf('"%s" has no estimate: %s', variant, conditionMessage(cnd))
        problems <<- c(problems, problem)
        NULL
      }
    )
  })
  warn_python(problems)
  fits <- rlang::set_names(fits, result$summary$variant)
  fits <- Filter(Negate(is.null), fits)
  if (length(fits) == 0) {
    return(result)
  }
  jsons <- lapply(unname(fits), \(fit) fit$json)
  estimates <- py_call("estimates_of_variants", as.list(names(fits)), jsons)
  result <- with_element(result, "estimates", estimates$estimates)
  result <- with_element(result, "estimates_json", estimates$json)
  result <- with_element(result, "notes", estimates$notes)
  with_element(result, "page", c(result$page, estimates$page))
}

# Converts a single object of one of the classes, or a list of objects, to a named list.
list_of <- function(x, class, arg) {
  if (inherits(x, class)) {
    x <- list(x)
  }
  fits <- is.list(x) && length(x) > 0 && all(vapply(x, inherits, logical(1), class))
  if (!fits) {
    kinds <- paste0("<", class, ">", collapse = " or ")
    abort_argument(arg, sprintf("a %s, or a list of them", kinds), x)
  }
  names <- rlang::names2(x)
  names(x) <- ifelse(nzchar(names), names, as.character(seq_along(x)))
  if (anyDuplicated(names(x))) {
    abort_argument(arg, "a list with unique names", x)
  }
  x
}

# Checks the values of `thinking` to try; NULL if there are none.
check_budgets <- function(x) {
  if (is.null(x) || inherits(x, "llamaherd_thinking") || length(x) == 1) {
    return(check_thinking(if (is.list(x) && is.null(names(x))) x[[1]] else x))
  }
  lapply(unname(as.list(x)), check_thinking)
}

check_orders <- function(x) {
  if (is.list(x)) {
    return(lapply(unname(x), \(order) {
      py_values(as_plain(label_values(order)), "orders")
    }))
  }
  py_value(x, "orders")
}

# Converts settings of annotate_texts() for Python.
settings_given <- function(settings) {
  known <- names(settings) %in% names(annotate_kinds) # Python refuses other names
  settings[known] <- Map(
    \(value, name) as_option(value, annotate_kinds[[name]], name, NULL),
    settings[known],
    names(settings)[known]
  )
  settings
}
