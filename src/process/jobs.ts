/**
 * Runs expensive jobs, a few at a time and in order, so that a flood of them does not fill memory or block everything else.
 * Concurrent callers of the same job share it. A job that no caller wants any more when its turn comes is dropped.
 */
export class Jobs<T> {
  readonly #atOnce: number;
  readonly #jobs = new Map<string, Job<T>>();
  readonly #queue = new Set<Job<T>>();
  #running = 0;

  /** @param atOnce the most jobs that run at once */
  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /** The number of jobs that wait for their turn. */
  get waiting(): number {
    return this.#queue.size;
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
      if (this.#running >= this.#atOnce) return;
      this.#queue.delete(job);
      if (job.callers.some((isWanted) => isWanted())) this.#start(job);
      else {
        this.#jobs.delete(job.key);
        job.reject(new JobDropped());
      }
    }
  }

  #start({ key, work, resolve, reject }: Job<T>): void {
    this.#running++;
    const end = (): void => {
      this.#running--;
      this.#jobs.delete(key);
      this.#startNext();
    };
    work().finally(end).then(resolve, reject);
  }
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
