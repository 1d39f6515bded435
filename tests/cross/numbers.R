# Draws, codes and computes what test_same_*.py compares with Python's numbers:
#   Rscript numbers.R SUBJECT JOB.json OUT.json
library(llamaherd)

json <- \(results, ...) jsonlite::toJSON(results, na = "null", digits = NA, ...)

# Draws a gold sample from a data frame, writes and reads it, and computes estimates:
estimates <- function(job_file) {
  data <- as.data.frame(jsonlite::read_json(job_file, simplifyVector = TRUE))
  drawn <- list(
    simple = gold_sample(data, 150, text = text, label = label, seed = 11),
    stratified = gold_sample(
      data,
      150,
      by = c(label, party),
      text = text,
      label = label,
      seed = 12,
      allocation = "equal"
    ),
    uncertainty = gold_sample(
      data,
      150,
      prob = "uncertainty",
      confidence = sure,
      text = text,
      label = label,
      id = key,
      seed = 2^40
    )
  )
  path <- tempfile(fileext = ".csv")
  results <- lapply(drawn, \(gold) {
    write_gold(gold, path, coders = "ann", overwrite = TRUE)
    # Fills in codes in the order of the file, like a person in a spreadsheet program.
    table <- utils::read.csv(
      path,
      colClasses = "character",
      fileEncoding = "UTF-8-BOM"
    )
    row <- if (is.null(gold$design$id)) {
      table$id
    } else {
      match(as.numeric(table$id), data$key)
    }
    table$ann <- data$code[as.integer(row)]
    # Spreadsheet programs read ids as numbers, and as.character() would convert 100000 to "1e+05".
    numbers <- data.frame(id = as.numeric(table$id), ann = table$ann)
    of_frame <- read_gold(numbers, gold)
    utils::write.csv(table, path, row.names = FALSE, fileEncoding = "UTF-8")
    gold <- unserialize(serialize(read_gold(path, gold), NULL))
    stopifnot(identical(of_frame, gold))
    fits <- list(
      shares = estimate(data, gold),
      groups = estimate(data, gold, outcome = "b", by = party),
      factor = estimate(
        transform(data, party = factor(party, levels = c("Y", "W", "X"))),
        gold,
        outcome = "b",
        by = "party"
      ),
      score = estimate(
        data,
        gold,
        outcome = c(a = -1, b = 0, c = 1),
        target = "texts"
      ),
      ols = estimate(data, gold, label == "b" ~ party + age, cluster = speaker),
      logit = estimate(data, gold, label == "b" ~ party + age, model = "logit"),
      right = estimate(data, gold, age ~ label + party, level = 0.9)
    )
    list(
      rows = gold$rows,
      probs = gold$all_probs,
      codes = gold$gold,
      fits = lapply(fits, \(fit) {
        c(as.list(as.data.frame(fit)), notes = list(fit$notes))
      })
    )
  })
  json(results)
}

# Draws waves, and estimates with survey weights.
waves <- function(job_file) {
  data <- as.data.frame(jsonlite::read_json(job_file, simplifyVector = TRUE))
  draw <- function(n, seed, ...) {
    gold_sample(data, n, text = text, label = label, seed = seed, ...)
  }
  coded <- function(gold) {
    read_gold(data.frame(id = gold$ids, ann = data$code[gold$rows]), gold)
  }
  first <- coded(draw(90, 21))
  drawn <- list(
    simple = coded(gold_sample(data, 60, after = first, seed = 22)),
    errors = coded(gold_sample(
      data,
      60,
      after = first,
      prob = data$w,
      seed = 2^40
    )),
    uncertainty = coded(
      gold_sample(
        data,
        40,
        after = coded(gold_sample(
          data,
          60,
          after = first,
          prob = data$w,
          seed = 23
        )),
        prob = "uncertainty",
        confidence = sure,
        seed = 24
      )
    ),
    strata = coded(
      gold_sample(
        data,
        60,
        after = coded(draw(60, 25, by = c(label, party))),
        seed = 26
      )
    ),
    weights = coded(draw(90, 27, prob = "weights", weights = w, floor = 0.2))
  )
  results <- lapply(drawn, \(gold) {
    path <- tempfile(fileext = ".csv")
    write_gold(gold, path)
    again <- read_gold(path)
    stopifnot(
      identical(again$all_probs, gold$all_probs),
      identical(again$gold, gold$gold)
    )
    fits <- list(
      shares = estimate(data, gold),
      weighted = estimate(data, gold, weights = w),
      groups = estimate(data, gold, outcome = "b", by = party, weights = "w"),
      ols = estimate(data, gold, label == "b" ~ party + age, weights = data$w),
      logit = estimate(
        data,
        gold,
        label == "b" ~ party,
        model = "logit",
        weights = w
      ),
      part = estimate(subset(data, party == "X"), gold)
    )
    list(
      rows = gold$rows,
      probs = gold$probs,
      all_probs = gold$all_probs,
      history = gold$history[c("wave", "kind", "n", "N", "seed", "n_coded")],
      measures = as.list(as.data.frame(validate(data, gold, weights = w))),
      fits = lapply(fits, \(fit) {
        c(as.list(as.data.frame(fit)), notes = list(as.list(fit$notes)))
      })
    )
  })
  json(results)
}

# Recalibrates labels and estimates with them.
recalibrated <- function(job_file) {
  data <- as.data.frame(jsonlite::read_json(job_file, simplifyVector = TRUE))
  gold <- gold_sample(data, 120, text = text, label = label, seed = 11)
  gold <- read_gold(
    data.frame(id = gold$ids, code = data$code[gold$rows]),
    gold
  )
  better <- recalibrate(data, gold, seed = 5)
  vectors <- as.matrix(data[c("v1", "v2", "v3")])
  both <- recalibrate(
    data,
    gold,
    c("probs", "embeddings"),
    vectors,
    cluster = speaker
  )
  formula <- label == "b" ~ age
  fits <- list(
    shares = estimate(better, gold),
    probs = estimate(data, gold, outcome = "b", predictions = "probs"),
    ols = estimate(better, gold, formula),
    right = estimate(better, gold, age ~ label)
  )
  out <- list(
    better = as.list(better),
    both = as.list(both),
    line = paste(recalibration(better)$line, collapse = "\n"),
    fits = lapply(fits, \(fit) list(rows = fit$rows, widths = fit$widths))
  )
  json(out, auto_unbox = TRUE)
}

# Compares texts in pairs.
# The job has the fields model, names and texts.
pairs <- function(job_file) {
  job <- jsonlite::read_json(job_file, simplifyVector = TRUE)
  context <- context_create(model_load(job$model), n_threads = 1L)
  texts <- stats::setNames(job$texts, job$names)
  notes <- character()
  ask <- function(...) {
    withCallingHandlers(
      compare_pairs(texts, "Which is angrier?", context, ...),
      llamaherd_warning_pairs = \(cnd) {
        notes <<- c(notes, conditionMessage(cnd))
        invokeRestart("muffleWarning")
      }
    )
  }
  comparison <- ask(n_pairs = 8, seed = 3)
  layout <- "{question} {a}={first} {b}={second}. Answer:"
  other <- ask(
    labels = c("x", "y"),
    layout = layout,
    design = "random",
    level = 0.9
  )
  refused <- function(code) {
    tryCatch(code, llamaherd_error_argument = \(cnd) conditionMessage(cnd))
  }
  errors <- c(
    refused(compare_pairs(texts, " ", context)),
    refused(compare_pairs(texts, "Which?", context, n_pairs = 100)),
    refused(compare_pairs(texts, "Which?", context, labels = c("A", "A"))),
    refused(compare_pairs(texts, "Which?", context, system = "Be brief."))
  )
  out <- list(
    strengths = as.list(comparison$strengths),
    pairs = as.list(comparison$pairs),
    bias = as.list(comparison$position_bias),
    other = as.list(other$strengths),
    notes = notes,
    known_notes = c(comparison$notes, other$notes),
    errors = errors
  )
  json(out)
}

# Splits a sample, compares codebooks and evaluates the best:
# The job has the fields model, texts, codes (of all texts), sheet (a path) and journal.
selection <- function(job_file) {
  job <- jsonlite::read_json(job_file, simplifyVector = TRUE)
  data <- data.frame(text = job$texts)
  gold <- gold_sample(data, 60, text = text, names = c("a", "b"), seed = 1)
  codes <- data.frame(id = gold$ids, code = job$codes[gold$rows])
  gold <- read_gold(codes, gold)
  gold <- gold_split(gold, 1 / 3, 1 / 3, 1 / 3, seed = 2)
  write_gold(gold, job$sheet)

  context <- context_create(model_load(job$model), n_threads = 1L)
  book <- codebook("Which?", c("a", "b"))
  shots <- choose_examples(gold, 3, book)
  comparison <- compare_codebooks(
    data,
    list(
      plain = book,
      batch = candidate(book, calibrate = "batch"),
      shots = shots
    ),
    gold,
    context,
    measure = "macro_f1"
  )
  grDevices::pdf(NULL)
  drawn <- plot(comparison)
  choice <- best_codebook(comparison, name = "plain")
  first <- evaluate_codebook(choice, job$sheet, context)
  again <- NULL
  second <- withCallingHandlers(
    evaluate_codebook(
      best_codebook(comparison, name = "shots"),
      job$sheet,
      context
    ),
    llamaherd_warning_evaluate = \(cnd) {
      again <<- conditionMessage(cnd)
      invokeRestart("muffleWarning")
    }
  )
  coded <- annotate_texts(data, text, book, context)
  angry <- function(task) codebook(task, number_scale(0, 4))
  rated <- gold_sample(
    data,
    60,
    text = text,
    names = as.character(0:4),
    seed = 3
  )
  numbers <- (rated$rows - 1) %% 5
  sheet <- data.frame(
    id = rated$ids,
    anna = numbers,
    ben = pmin(numbers + 1, 4)
  )
  rated <- gold_split(read_gold(sheet, rated), 0, 1 / 2, 1 / 2, seed = 4)
  scales <- compare_codebooks(
    data,
    list(one = angry("How angry?"), other = angry("Rate the anger.")),
    rated,
    context
  )
  scale_choice <- best_codebook(scales)
  effect <- tryCatch(
    choose_examples(gold, 3, book, context = context, calibrate = "batch"),
    condition = conditionMessage
  )
  results <- list(
    scales = scales$summary,
    scale_pairs = scales$pairs,
    scale_value = evaluate_codebook(scale_choice, rated, context)$value,
    parts = gold$parts,
    probs = gold_part(gold, "select")$probs,
    shots = shots$hash,
    summary = comparison$summary,
    pairs = comparison$pairs,
    tied = comparison$tied,
    plotted = list(
      name = drawn$scales$get_scales("y")$labels,
      value = drawn$data$x[as.integer(drawn$data$panel) == 1]
    ),
    hash = choice$hash,
    value = first$value,
    first = c(first$first, second$first),
    opened = second$opened$name,
    again = again,
    stored = length(gold_part(read_gold(job$sheet), "evaluate")$ids),
    wrong = disagreements(coded, gold),
    hardest = choose_examples(
      gold,
      3,
      book,
      by = "hardest",
      coded = coded
    )$hash,
    effect = effect,
    size = gold_size(compare = 0.05)$gold
  )
  json(results, dataframe = "columns")
}

arguments <- commandArgs(TRUE)
subject <- get(arguments[[1]], environment(), mode = "function")
# Writes bytes, because a connection would convert the text to the locale's encoding.
writeBin(charToRaw(enc2utf8(subject(arguments[[2]]))), arguments[[3]])
