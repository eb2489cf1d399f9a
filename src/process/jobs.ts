/**
 * Runs expensive jobs, a few at a time and in order, so that a flood of them does not fill memory or block everything else.
 * Concurrent callers of the same job share it. A job that no caller wants any more when its turn comes is dropped.
 */
export class Jobs<T> {
  readonly #limits: JobLimits;
  readonly #jobs = new Map<string, Job<T>>();
  readonly #queue = new Set<Job<T>>();
  #running = 0;

  constructor(limits: JobLimits) {
    this.#limits = limits;
  }

  /** Whether so many jobs wait that a caller should do without another one. `run` accepts it all the same. */
  isFull(): boolean {
    return this.#queue.size >= this.#limits.waiting;
  }

  /**
   * @param key identifies the job
   * @param isWanted whether the caller still waits for the result
   * @returns the result; rejects with `JobDropped`, or with the error of the work. A failed job runs again when it is asked
   *   for again.
   */
  run(key: string, isWanted: () => boolean, work: () => Promise<T>): Promise<T> {
    const known = this.#jobs.get(key);
    if (known !== undefined) {
      known.callers.push(isWanted);
      return known.promise;
    }
    const job: Job<T> = { key, work, callers: [isWanted], ...Promise.withResolvers<T>() };
    this.#jobs.set(key, job);
    this.#queue.add(job);
    this.#startNext();
    return job.promise;
  }

  #startNext(): void {
    for (const job of this.#queue) {
      if (this.#running >= this.#limits.atOnce) return;
      this.#queue.delete(job);
      if (job.callers.some((isWanted) => isWanted())) void this.#start(job);
      else {
        this.#jobs.delete(job.key);
        job.reject(new JobDropped());
      }
    }
  }

  async #start({ key, work, resolve, reject }: Job<T>): Promise<void> {
    this.#running++;
    await work()
      .finally(() => {
        this.#running--;
        this.#jobs.delete(key);
        this.#startNext();
      })
      .then(resolve, reject);
  }
}

interface JobLimits {
  /** The most jobs that run at once. */
  readonly atOnce: number;
  /** The number of waiting jobs from which on the queue is full. */
  readonly waiting: number;
}

interface Job<T> extends PromiseWithResolvers<T> {
  readonly key: string;
  readonly callers: (() => boolean)[];
  readonly work: () => Promise<T>;
}

/** No caller waits for the result any more, so no caller sees this error. */
class JobDropped extends Error {
  override readonly name = "JobDropped";
}
