# Runs models over the texts of a job, for comparison with Python's results:
#   Rscript texts.R SUBJECT JOB.json OUT.json
library(llamaherd)

json <- \(results, ...) jsonlite::toJSON(results, na = "null", digits = NA, ...)

# Answers the prompts of a job.
# The job has the fields model, lora (scales by path, if any), context (arguments of
# context_create), prompts, and generate (arguments of generate_parallel). A null in JSON means a
# prompt that is NA. With a schema the result also contains `table`.
answers <- function(job_file) {
  job <- jsonlite::read_json(job_file)
  job$generate$choices <- unlist(job$generate$choices)
  model <- model_load(job$model, lora = job$lora)
  context <- do.call(context_create, c(list(model), job$context))
  prompts <- lapply(job$prompts, \(prompt) {
    if (is.list(prompt)) unlist(prompt) else prompt
  })
  if (
    all(vapply(
      prompts,
      \(prompt) is.null(prompt) || is.character(prompt),
      logical(1)
    ))
  ) {
    prompts <- vapply(
      prompts,
      \(prompt) if (is.null(prompt)) NA_character_ else prompt,
      character(1)
    )
  }
  answers <- withCallingHandlers(
    do.call(generate_parallel, c(list(context, prompts), job$generate)),
    llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning"),
    llamaherd_warning_incomplete = \(cnd) invokeRestart("muffleWarning")
  )

  data <- if (is.data.frame(answers)) answers
  if (inherits(answers, "llamaherd_samples")) {
    table <- as.data.frame(answers)
    for (name in c("finish_reason", "complete")) {
      attr(answers, name) <- table[[name]]
    }
    attr(answers, "errors") <- table$error
    attr(answers, "usage") <- table[c(
      "n_prompt_tokens",
      "n_reused_tokens",
      "seed"
    )]
    texts <- table$text
  } else {
    texts <- if (is.null(data)) as.character(answers) else attr(data, "text")
  }
  answers <- list(
    texts = texts,
    table = data,
    errors = attr(answers, "errors"),
    finish_reasons = attr(answers, "finish_reason"),
    complete = attr(answers, "complete"),
    usage = attr(answers, "usage"),
    hashes = attr(answers, "hashes"),
    stats = unclass(attr(answers, "stats"))
  )
  json(answers, dataframe = "columns")
}

# Labels the texts of a job with its codebook.
# The job has the fields model, codebook (a YAML file), texts and arguments of annotate_texts.
coding <- function(job_file) {
  job <- jsonlite::read_json(job_file, simplifyVector = TRUE)
  context <- context_create(model_load(job$model), n_threads = 1L)
  codebook <- read_codebook(job$codebook)
  data <- data.frame(text = job$texts)
  coded <- withCallingHandlers(
    do.call(
      annotate_texts,
      c(list(data, quote(text), codebook, context), job$arguments)
    ),
    llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning")
  )
  several <- robustness(data, text, codebook, context, orders = 2, n_texts = 4)
  results <- list(
    coded = as.data.frame(coded),
    run = attr(coded, "llamaherd")$run_json,
    hash = codebook$hash,
    preview = unclass(prompt_preview(codebook, "x", context)),
    labels = several$labels,
    pairwise = several$pairwise
  )
  json(results, dataframe = "columns")
}

# Runs tasks over texts.
# The job has model, encoder, texts, codebook, scale and fields (YAML files), schema (JSON) and
# labels; and in `thinking` further tasks by name, each with model, task and settings. The reasons
# of failures, which are an attribute of R's tables, become a column of the output.
columns <- function(job_file) {
  job <- jsonlite::read_json(job_file, simplifyVector = TRUE)
  quietly <- function(code) {
    withCallingHandlers(
      code,
      llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning"),
      llamaherd_warning_coverage = \(cnd) invokeRestart("muffleWarning")
    )
  }
  described <- function(frame) {
    kind <- function(column) {
      switch(
        class(column)[[length(class(column))]],
        factor = ,
        character = "string",
        integer = "integer",
        numeric = "number",
        logical = "boolean",
        list = sprintf(
          "array of %s",
          kind(Filter(Negate(is.null), column)[[1]])
        )
      )
    }
    plain <- function(x) {
      if (is.factor(x)) {
        as.character(x)
      } else if (is.list(x)) {
        lapply(x, plain)
      } else {
        x
      }
    }
    list(
      kinds = lapply(frame, kind),
      values = lapply(frame, \(x) unname(plain(x)))
    )
  }
  with_errors <- function(table) {
    frame <- as.data.frame(table)
    frame$error <- unname(attr(table, "errors"))
    frame
  }

  context <- context_create(
    model_load(job$model),
    deterministic = TRUE,
    n_threads = 1L
  )
  data <- data.frame(text = job$texts)
  coded <- function(file, ...) {
    book <- read_codebook(file)
    table <- quietly(annotate_texts(
      data,
      text,
      book,
      context,
      columns = "x_",
      ...
    ))
    described(as.data.frame(table)[-1])
  }
  vectors <- quietly(embed_parallel(
    model_load(job$encoder),
    job$texts,
    deterministic = TRUE,
    n_threads = 1L
  ))
  rows <- lapply(seq_len(nrow(vectors)), \(i) unname(vectors[i, ]))
  results <- list(
    annotate = coded(job$codebook),
    scale = coded(job$scale, distribution = TRUE),
    fields = coded(job$fields, max_tokens = 80L),
    generate = described(with_errors(quietly(
      generate_parallel(
        context,
        job$texts,
        schema = job$schema,
        max_tokens = 80L
      )
    ))),
    classify = described(with_errors(quietly(
      classify_parallel(context, job$texts, labels = job$labels)
    ))),
    embed = list(
      kinds = list(embedding = "vector", error = "string"),
      values = list(embedding = rows, error = unname(attr(vectors, "errors")))
    )
  )
  thought <- function(job, texts) {
    context <- context_create(
      model_load(job$model),
      deterministic = TRUE,
      n_threads = 1L
    )
    settings <- job$settings
    if (job$task == "annotate") {
      book <- read_codebook(settings$codebook)
      settings$codebook <- NULL
      coded <- rlang::exec(
        annotate_texts,
        data,
        "text",
        book,
        context,
        columns = "x_",
        !!!settings
      )
      return(described(as.data.frame(coded)[-1]))
    }
    task <- switch(
      job$task,
      classify = classify_parallel,
      generate = generate_parallel
    )
    described(with_errors(rlang::exec(task, context, texts, !!!settings)))
  }
  results <- c(
    results,
    lapply(job$thinking, \(setting) quietly(thought(setting, job$texts)))
  )
  json(results, null = "null")
}

# Computes embeddings.
# The job has the fields model, texts (null is NA) and embed (arguments of embed_parallel).
embed <- function(job_file) {
  job <- jsonlite::read_json(job_file)
  texts <- vapply(
    job$texts,
    \(text) if (is.null(text)) NA_character_ else text,
    character(1)
  )
  vectors <- withCallingHandlers(
    do.call(embed_parallel, c(list(model_load(job$model), texts), job$embed)),
    llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning")
  )
  out <- list(
    vectors = matrix(vectors, nrow(vectors)),
    errors = attr(vectors, "errors"),
    stats = unclass(attr(vectors, "stats"))
  )
  json(out)
}

# Generates quotes in R.
# The job has model and texts. The results are quotes with their positions, and the return values
# of substr() for these positions.
quotes <- function(job_file) {
  job <- jsonlite::read_json(job_file, simplifyVector = TRUE)
  texts <- job$texts
  model <- model_load(job$model)
  context <- context_create(model, deterministic = TRUE, n_threads = 1)

  columns <- function(frame, text) {
    list(
      quote = frame$quote,
      start = frame$start,
      end = frame$end,
      cut = substr(text, frame$start, frame$end)
    )
  }
  field <- type_object(why = type_quote(least = 2, most = 6))
  answers <- generate_parallel(
    context,
    rep("Quote: ", length(texts)),
    schema = field,
    quote_from = texts,
    max_tokens = 150
  )
  data <- data.frame(text = texts)
  topics <- codebook("Which topic?", c("Sports", "Business"))
  labels <- annotate_texts(
    data,
    text,
    topics,
    context,
    evidence = TRUE,
    verbosity = -1L
  )
  fields <- codebook("Why?", type = "fields", schema = field)
  coded <- annotate_texts(
    data,
    text,
    fields,
    context,
    max_tokens = 80,
    verbosity = -1L
  )
  book <- codebook("Mark.", c("a", "b"), type = "spans", max_spans = 2)
  spans <- annotate_texts(
    data,
    text,
    book,
    context,
    max_tokens = 200,
    temperature = 99,
    verbosity = -1L
  )
  long <- coded_spans(spans)
  page <- function(name) file.path(dirname(job_file), paste0(name, ".html"))
  report(labels, page("evidence"))
  report(labels[3:2, ], page("rows"))
  report(spans, page("spans"))
  close(model)
  json(list(
    generate = columns(answers$why, texts),
    evidence = columns(labels, texts),
    fields = columns(coded$why, texts),
    spans = columns(long, texts[long$row])
  ))
}

# Classifies and scores the prompts of a job.
# The job has the fields model, prompts, readings and names of labels, and arguments of
# classify_parallel and score_parallel.
scores <- function(job_file) {
  job <- jsonlite::read_json(job_file, simplifyVector = TRUE)
  context <- context_create(model_load(job$model), n_threads = 1L)
  call <- \(fun, arguments) {
    withCallingHandlers(
      do.call(fun, c(list(context), arguments)),
      llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning")
    )
  }
  labels <- stats::setNames(job$readings, job$names)
  classes <- call(classify_parallel, c(list(job$prompts, labels), job$classify))
  scores <- call(score_parallel, c(list(job$prompts), job$score))
  texts <- call(perplexity, list(job$prompts))
  results <- list(
    classes = as.data.frame(classes),
    logprobs = attr(classes, "logprobs"),
    errors = attr(classes, "errors"),
    calibrated = as.data.frame(calibrated(classes, calibrate_batch(classes))),
    scores = as.data.frame(scores),
    texts = as.data.frame(texts)
  )
  json(results, dataframe = "columns")
}

# Labels the texts of a job and writes a report; then reproduces a report that Python wrote:
telling <- function(job_file) {
  job <- jsonlite::read_json(job_file, simplifyVector = TRUE)
  model <- model_load(job$model)
  context <- context_create(
    model,
    n_threads = 1L,
    n_seq_max = 4L,
    deterministic = TRUE
  )
  codebook <- read_codebook(job$codebook)
  coded <- annotate_texts(data.frame(text = job$texts), text, codebook, context)
  people <- c("Sports", "no", "no", NA, "Sports", "no")
  several <- robustness(coded, contexts = context, orders = 1)
  sample <- estimate(cbind(coded, code = people), "code", prob = "simple")
  report(coded, job$page, validate(coded, people), sample, several)
  # A report also accepts rows in another order.
  report(coded[c(4, 1, 5), ], job$part, texts = FALSE)
  # Results that were computed from other labels.
  other <- annotate_texts(
    coded["text"],
    text,
    codebook,
    context,
    normalize = "token"
  )
  other$label[1] <- setdiff(levels(other$label), as.character(coded$label[1]))[
    1
  ]
  kept <- tempfile(fileext = ".rds")
  saveRDS(validate(coded, people), kept)
  earlier <- jsonlite::parse_json(sample$json)
  earlier$source <- NULL
  text <- jsonlite::toJSON(
    earlier,
    auto_unbox = TRUE,
    digits = NA,
    null = "null"
  )
  earlier <- llamaherd:::with_element(sample, "json", as.character(text))
  parts <- list(
    saved = list(validation = readRDS(kept)),
    validation = list(validation = validate(other, people)),
    sorted = list(validation = validate(coded[6:1, ], rev(people))),
    estimates = list(
      estimates = estimate(cbind(other, code = people), "code", prob = "simple")
    ),
    earlier = list(estimates = earlier),
    robustness = list(
      robustness = robustness(other, contexts = context, orders = 1)
    )
  )
  refused <- lapply(parts, \(part) {
    tryCatch(
      {
        do.call(report, c(list(coded, tempfile(fileext = ".json")), part))
        "taken"
      },
      llamaherd_error_argument = \(cnd) gsub("\\s+", " ", conditionMessage(cnd))
    )
  })
  again <- reproduce(job$of_python, model, n_seq_max = 2)
  results <- list(
    same = again$same,
    n = again$n,
    page = format(again),
    refused = refused
  )
  json(results, auto_unbox = TRUE)
}

arguments <- commandArgs(TRUE)
subject <- get(arguments[[1]], environment(), mode = "function")
# Writes bytes, because a connection would convert the text to the locale's encoding.
writeBin(charToRaw(enc2utf8(subject(arguments[[2]]))), arguments[[3]])
